//! `_foreach_*`: an operator over each element of lists. They are loops over the plain operators, above autograd, so that
//! each element has its operator's graph.

use crate::dispatch::{DispatchKey, Kernel, Operator, Registry, call_op, operator};
use crate::ivalue::{IValue, Stack};
use crate::{OpId, Result, Scalar, Tensor, bail, check, generated, op};
use std::sync::Arc;

pub(crate) fn register(r: &mut Registry) {
    let _ = r;
    macro_rules! same_name {
        ($($foreach:ident $target:ident;)*) => {$( each(op::$foreach, op::$target); )*};
    }
    same_name! {
        _foreach_add_Scalar add_Scalar; _foreach_add_List add_Tensor; _foreach_add_ScalarList add_Scalar;
        _foreach_add_Tensor add_Tensor;
        _foreach_sub_Scalar sub_Scalar; _foreach_sub_List sub_Tensor; _foreach_sub_ScalarList sub_Scalar;
        _foreach_mul_Scalar mul_Scalar; _foreach_mul_List mul_Tensor; _foreach_mul_ScalarList mul_Scalar;
        _foreach_mul_Tensor mul_Tensor;
        _foreach_div_Scalar div_Scalar; _foreach_div_List div_Tensor; _foreach_div_ScalarList div_Scalar;
        _foreach_div_Tensor div_Tensor;
        _foreach_clamp_max_Scalar clamp_max; _foreach_clamp_max_List clamp_max_Tensor;
        _foreach_clamp_max_ScalarList clamp_max;
        _foreach_clamp_min_Scalar clamp_min; _foreach_clamp_min_List clamp_min_Tensor;
        _foreach_clamp_min_ScalarList clamp_min;
        _foreach_maximum_Scalar clamp_min; _foreach_maximum_List clamp_min_Tensor;
        _foreach_maximum_ScalarList clamp_min;
        _foreach_minimum_Scalar clamp_max; _foreach_minimum_List clamp_max_Tensor;
        _foreach_minimum_ScalarList clamp_max;
        _foreach_addcdiv_Scalar addcdiv; _foreach_addcdiv_ScalarList addcdiv; _foreach_addcdiv_Tensor addcdiv;
        _foreach_addcmul_Scalar addcmul; _foreach_addcmul_ScalarList addcmul; _foreach_addcmul_Tensor addcmul;
        _foreach_abs abs; _foreach_acos acos; _foreach_asin asin; _foreach_atan atan; _foreach_ceil ceil;
        _foreach_cos cos; _foreach_cosh cosh; _foreach_erf erf; _foreach_erfc erfc; _foreach_exp exp;
        _foreach_expm1 expm1; _foreach_floor floor; _foreach_frac frac; _foreach_lgamma lgamma; _foreach_log log;
        _foreach_log10 log10; _foreach_log1p log1p; _foreach_log2 log2; _foreach_max max; _foreach_neg neg;
        _foreach_reciprocal reciprocal; _foreach_round round; _foreach_rsqrt rsqrt; _foreach_sigmoid sigmoid;
        _foreach_sign sign; _foreach_sin sin; _foreach_sinh sinh; _foreach_sqrt sqrt; _foreach_tan tan;
        _foreach_tanh tanh; _foreach_trunc trunc; _foreach_zero zero; _foreach_clone clone; _foreach_mm mm;
        _foreach_lerp_List lerp_Tensor; _foreach_lerp_Scalar lerp_Scalar; _foreach_lerp_ScalarList lerp_Scalar;
        _foreach_pow_List pow_Tensor_Tensor; _foreach_pow_Scalar pow_Tensor_Scalar;
        _foreach_pow_ScalarList pow_Tensor_Scalar; _foreach_pow_ScalarAndTensor pow_Scalar;
        _foreach_norm_Scalar linalg_vector_norm;
    }
    set(op::_foreach_copy_, op::copy_, true);
}

/// Serves the list operator and its in-place form by the operator of one tensor and its in-place form.
fn each(foreach: OpId, target: OpId) {
    set(foreach, target, false);
    if let (Some(a), Some(b)) = (generated::info(foreach).inplace, generated::info(target).inplace) {
        set(a, b, true);
    }
}

fn set(foreach: OpId, target: OpId, in_place: bool) {
    let norm = foreach == op::_foreach_norm_Scalar;
    let call = move |_: &'static Operator, _, stack: &mut Stack| run(stack, target, in_place, norm);
    operator(foreach).register(DispatchKey::CompositeImplicitAutograd, Kernel::Boxed(Arc::new(call)));
}

fn run(stack: &mut Stack, target: OpId, in_place: bool, norm: bool) -> Result<()> {
    let mut args = std::mem::take(stack);
    // The packed form of addcmul and addcdiv: a tensor of numbers, last.
    if (target == op::addcmul || target == op::addcdiv || target == op::addcmul_ || target == op::addcdiv_)
        && let Some(IValue::Tensor(t)) = args.get(3)
    {
        args[3] = IValue::ScalarList(unpacked(t)?);
    }
    let count = check_lists(&args)?;
    let mut results: Vec<Tensor> = Vec::with_capacity(count);
    for i in 0..count {
        let mut inner = Stack::new();
        for v in &args {
            inner.push(match v {
                IValue::TensorList(list) => IValue::Tensor(list[i].clone()),
                IValue::ScalarList(list) => list[i].into(),
                other => other.clone(),
            });
        }
        if norm {
            // linalg_vector_norm(self, ord, dim=None, keepdim=False, dtype)
            inner.insert(2, IValue::None);
            inner.insert(3, IValue::Bool(false));
        }
        call_op(operator(target), &mut inner)?;
        match inner.into_iter().next() {
            Some(IValue::Tensor(t)) => results.push(t),
            _ => bail!(Internal, "{} returned no tensor", operator(target).qualified_name()),
        }
    }
    if !in_place {
        stack.push(IValue::TensorList(results));
    }
    Ok(())
}

/// The common length of the lists.
fn check_lists(args: &[IValue]) -> Result<usize> {
    let mut count = None;
    for v in args {
        match v {
            IValue::TensorList(list) => match count {
                None => {
                    check!(!list.is_empty(), "Tensor list must have at least one tensor.");
                    count = Some(list.len());
                }
                Some(n) => check!(
                    n == list.len(),
                    "Tensor lists must have the same number of tensors, got {n} and {}",
                    list.len()
                ),
            },
            IValue::List(list) if list.is_empty() => {
                bail!(Runtime, "Tensor list must have at least one tensor.")
            }
            _ => {}
        }
    }
    let count = count.unwrap_or(0);
    for v in args {
        if let IValue::ScalarList(list) = v {
            check!(list.len() == count, "Tensor list must have same number of elements as scalar list.");
        }
    }
    Ok(count)
}

fn unpacked(t: &Tensor) -> Result<Vec<Scalar>> {
    check!(t.is_cpu(), "Expected scalars to be on CPU, got {} instead.", t.device());
    check!(t.is_contiguous(), "Expected scalars to be contiguous.");
    check!(t.dim() == 1, "Expected packed scalar Tensor to be of dimension 1. Got {} instead.", t.dim());
    (0..t.numel()).map(|i| super::options::item(&op::select_int.call((t, 0, i))?)).collect()
}
