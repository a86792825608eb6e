//! How one kernel serves the functional, in-place and out overloads of an operator.

use super::operator::{BuildFn, FillFn, LoopFn, MetaFn, Operator, operator};
use super::registry::OutSpec;
use crate::ivalue::{Args, IValue, Stack};
use crate::schema::OpId;
use crate::tensor::{factory, memory};
use crate::{Result, Tensor, bail, check};
use smallvec::SmallVec;

/// Which overload a kernel serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Functional,
    /// Writes its first argument and returns it.
    Inplace,
    /// Writes its last arguments and returns them.
    Out,
}

fn returns(stack: &mut Stack, outs: SmallVec<[Tensor; 2]>) {
    stack.clear();
    stack.extend(outs.into_iter().map(IValue::Tensor));
}

fn make(spec: &OutSpec) -> Result<Tensor> {
    match &spec.strides {
        Some(st) => factory::empty_strided(&spec.sizes, st, spec.dtype, spec.device),
        None => factory::empty(&spec.sizes, spec.dtype, spec.device),
    }
}

/// The out arguments of a call: the trailing ones that the schema marks.
fn out_args(op: &Operator, stack: &Stack) -> Result<SmallVec<[Tensor; 2]>> {
    let s = op.signature()?;
    let mut outs = SmallVec::new();
    for (i, v) in stack.iter().enumerate() {
        if s.outs & (1 << i) != 0 {
            outs.push(v.tensor()?.clone());
        }
    }
    Ok(outs)
}

fn check_out(out: &Tensor, spec: &OutSpec) -> Result<()> {
    check!(
        out.device() == spec.device,
        "Expected out tensor to have device {}, but got {} instead",
        spec.device,
        out.device()
    );
    Ok(())
}

/// Runs a shape function, then its kernel, in the wanted form.
pub(super) fn structured(
    op: &'static Operator,
    meta: MetaFn,
    fill: Option<FillFn>,
    form: Form,
    stack: &mut Stack,
) -> Result<()> {
    let n_outs = if form == Form::Out { op.signature()?.outs.count_ones() as usize } else { 0 };
    let args = Args(&stack[..stack.len() - n_outs]);
    let specs = meta(args)?;
    let mut outs: SmallVec<[Tensor; 2]> = SmallVec::new();
    if form == Form::Functional {
        for spec in &specs {
            outs.push(make(spec)?);
        }
        if let Some(fill) = fill {
            fill(args, &outs)?;
        }
        returns(stack, outs);
        return Ok(());
    }
    let targets =
        if form == Form::Out { out_args(op, stack)? } else { SmallVec::from_iter([args.tensor(0)?.clone()]) };
    check!(targets.len() == specs.len(), Internal; "{} has {} results", op.qualified_name(), specs.len());
    for (target, spec) in targets.iter().zip(&specs) {
        check_out(target, spec)?;
        if form == Form::Out {
            check!(
                crate::dtype::can_cast(spec.dtype, target.dtype())
                    && (target.dtype() == spec.dtype || spec.castable),
                "Expected out tensor to have dtype {}, but got {} instead",
                cpp_dtype(spec.dtype),
                cpp_dtype(target.dtype())
            );
            memory::resize_output(target, &spec.sizes, spec.strides.as_deref())?;
        } else {
            check!(
                crate::dtype::can_cast(spec.dtype, target.dtype()),
                "result type {} can't be cast to the desired output type {}",
                spec.dtype,
                target.dtype()
            );
            check!(
                target.sizes() == &spec.sizes[..],
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                target.sizes(),
                &spec.sizes[..]
            );
        }
        memory::assert_no_internal_overlap(target)?;
    }
    let Some(fill) = fill else {
        returns(stack, targets);
        return Ok(());
    };
    // A target that is not what the kernel expects, or that an input shares, is written by way of a temporary.
    let mut temps: SmallVec<[Tensor; 2]> = SmallVec::new();
    for (target, spec) in targets.iter().zip(&specs) {
        let fits = target.dtype() == spec.dtype
            && match &spec.strides {
                Some(st) => target.strides() == &st[..],
                None => target.is_contiguous(),
            };
        let mut shared = false;
        for v in args.0 {
            v.for_each_tensor(&mut |t| shared |= memory::overlap(target, t) != memory::Sharing::No);
        }
        temps.push(if fits && !shared { target.clone() } else { make(spec)? });
    }
    fill(args, &temps)?;
    for (target, temp) in targets.iter().zip(&temps) {
        if !target.is_same(temp) {
            crate::ops::copy::copy_into(target, temp)?;
        }
    }
    returns(stack, targets);
    Ok(())
}

/// `torch.float32`-like spelling that structured kernels print: upstream prints the C++ name in lower case words.
fn cpp_dtype(d: crate::DType) -> &'static str {
    d.torch_name_cpp()
}

/// Builds and runs a pointwise iteration in the wanted form.
pub(super) fn pointwise(
    op: &'static Operator,
    build: BuildFn,
    run: Option<LoopFn>,
    form: Form,
    stack: &mut Stack,
) -> Result<()> {
    let _ = op;
    let out = match form {
        Form::Functional => {
            let args = Args(stack);
            let it = build(args, None)?;
            if let Some(run) = run {
                it.check_device(op)?;
                run(&it, args)?;
                it.cast_outputs()?;
            }
            it.into_output()
        }
        Form::Inplace | Form::Out => {
            let n = stack.len() - usize::from(form == Form::Out);
            let target =
                if form == Form::Out { stack[n].tensor()?.clone() } else { stack[0].tensor()?.clone() };
            let args = Args(&stack[..n]);
            let it = build(args, Some(&target))?;
            if form == Form::Inplace {
                check!(
                    it.shape_before_reorder() == target.sizes(),
                    "output with shape {:?} doesn't match the broadcast shape {:?}",
                    target.sizes(),
                    it.shape_before_reorder()
                );
            }
            if let Some(run) = run {
                it.check_device(op)?;
                run(&it, args)?;
                it.cast_outputs()?;
            }
            target
        }
    };
    stack.clear();
    stack.push(IValue::Tensor(out));
    Ok(())
}

/// Serves an in-place or out overload by the functional operator and a copy. Above autograd (`graph`) the copy is an
/// operator call too, so that the graph and the version counter see it.
pub(super) fn derived(
    op: &'static Operator,
    functional: OpId,
    form: Form,
    graph: bool,
    stack: &mut Stack,
) -> Result<()> {
    let base = operator(functional);
    let targets: SmallVec<[Tensor; 2]> = match form {
        Form::Out => out_args(op, stack)?,
        // Lists written in place have no functional operator that returns them.
        _ if stack[0].opt_tensor().is_none() => {
            let key = super::DispatchKeySet::of(super::DispatchKey::for_device(crate::DeviceType::Cpu));
            return Err(super::fallback::missing(op, key, stack));
        }
        _ => SmallVec::from_iter([stack[0].tensor()?.clone()]),
    };
    let mut inner: Stack = Stack::new();
    let names = &base.signature()?.schema.arguments;
    let own = &op.signature()?.schema.arguments;
    for (i, a) in names.iter().enumerate() {
        // Factory functions have options that their out overload takes from the out tensor.
        match own.iter().position(|b| b.name == a.name && !b.is_out()) {
            Some(j) => inner.push(stack[j].clone()),
            None => inner.push(match (a.name.as_str(), form) {
                ("dtype", Form::Out) => IValue::DType(targets[0].dtype()),
                ("device", Form::Out) => IValue::Device(targets[0].device()),
                ("layout", Form::Out) => IValue::Layout(targets[0].layout()),
                _ => base.signature()?.defaults[i].clone().unwrap_or(IValue::None),
            }),
        }
    }
    super::call_op(base, &mut inner)?;
    let results: Vec<Tensor> = {
        let mut v = Vec::new();
        inner.iter().for_each(|x| x.for_each_tensor(&mut |t| v.push(t.clone())));
        v
    };
    if results.len() != targets.len() {
        bail!(
            NotImplemented,
            "{} has {} results for {} outputs",
            op.qualified_name(),
            results.len(),
            targets.len()
        );
    }
    for (target, result) in targets.iter().zip(&results) {
        check!(
            crate::dtype::can_cast(result.dtype(), target.dtype()),
            "result type {} can't be cast to the desired output type {}",
            result.dtype(),
            target.dtype()
        );
        if form == Form::Out {
            memory::resize_output(target, result.sizes(), None)?;
        } else {
            check!(
                target.sizes() == result.sizes(),
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                target.sizes(),
                result.sizes()
            );
        }
        memory::assert_no_internal_overlap(target)?;
        if graph {
            crate::op::copy_.call((target, result))?;
        } else {
            crate::ops::copy::copy_into(target, result)?;
        }
    }
    let keep = op.signature()?.schema.returns.len();
    stack.clear();
    stack.extend(targets.into_iter().take(keep.max(1)).map(IValue::Tensor));
    if keep == 0 {
        stack.clear();
    }
    Ok(())
}
