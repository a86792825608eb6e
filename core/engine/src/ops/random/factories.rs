//! `rand`, `randn`, `randperm` and the `*_like` forms; helpers that make the tensors random factories fill.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::ops::factories::like;
use crate::ops::options::{Options, empty_on};
use crate::random::permutation;
use crate::tensor::memory;
use crate::{DType, OpId, Result, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::rand, |a| factory_of(a, op::uniform_, None))
        .explicit(op::rand_generator, |a| factory_of(a, op::uniform_, Some(1)))
        .explicit(op::rand_out, |a| out_of(a, op::uniform_, None))
        .explicit(op::rand_generator_out, |a| out_of(a, op::uniform_, Some(1)))
        .explicit(op::rand_like, |a| like_of(a, op::uniform_, None))
        .explicit(op::rand_like_generator, |a| like_of(a, op::uniform_, Some(1)))
        .explicit(op::randn, |a| factory_of(a, op::normal_, None))
        .explicit(op::randn_generator, |a| factory_of(a, op::normal_, Some(1)))
        .explicit(op::randn_out, |a| out_of(a, op::normal_, None))
        .explicit(op::randn_generator_out, |a| out_of(a, op::normal_, Some(1)))
        .explicit(op::randn_like, |a| like_of(a, op::normal_, None))
        .explicit(op::randn_like_generator, |a| like_of(a, op::normal_, Some(1)))
        .explicit(op::randperm, |a| randperm(a, None))
        .explicit(op::randperm_generator, |a| randperm(a, Some(1)))
        .explicit(op::randperm_out, |a| {
            op::randperm_generator_out.call((a.int(0)?, (), a.tensor(1)?)).map(Into::into)
        })
        .any_device(op::randperm_generator_out, randperm_out);
}

/// An uninitialised tensor of the options dtype, layout, device, pin_memory that start at argument `at`.
pub(super) fn new(a: Args<'_>, sizes: &[i64], at: usize, default: Option<DType>) -> Result<Tensor> {
    let options = Options::read(a, at)?;
    empty_on(sizes, options.dtype.or(default).unwrap_or_else(|| options.dtype()), options.device())
}

/// An `out=` tensor with new sizes; `resize_` keeps the storage when it is large enough.
pub(super) fn resized(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if t.sizes() != sizes {
        if t.is_cpu() || t.is_meta() {
            memory::resize(t, sizes, None)?;
        } else {
            op::resize_.call((t, sizes))?;
        }
    }
    Ok(t.clone())
}

/// Fills by a sampler whose parameters are 0 and 1.
fn draw(t: &Tensor, sampler: OpId, a: Args<'_>, g: Option<usize>) -> Result<Returns> {
    let g = g.and_then(|at| a.opt_generator(at)).cloned();
    sampler.call((t, 0.0, 1.0, g))?;
    Ok(t.into())
}

/// (SymInt[] size, *, Generator? generator, ScalarType? dtype=None, …) -> Tensor
fn factory_of(a: Args<'_>, sampler: OpId, g: Option<usize>) -> Result<Returns> {
    let t = new(a, a.int_list(0)?, 1 + g.map_or(0, |_| 1), None)?;
    draw(&t, sampler, a, g)
}

/// (SymInt[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)
fn out_of(a: Args<'_>, sampler: OpId, g: Option<usize>) -> Result<Returns> {
    let t = resized(a.tensor(a.len() - 1)?, a.int_list(0)?)?;
    draw(&t, sampler, a, g)
}

/// (Tensor self, *, Generator? generator, ScalarType? dtype=None, …, MemoryFormat? memory_format=None) -> Tensor
fn like_of(a: Args<'_>, sampler: OpId, g: Option<usize>) -> Result<Returns> {
    let t = like(a, 1 + g.map_or(0, |_| 1))?;
    draw(&t, sampler, a, g)
}

/// randperm(SymInt n, *, Generator? generator, ScalarType? dtype=long, …) -> Tensor
fn randperm(a: Args<'_>, g: Option<usize>) -> Result<Returns> {
    let t = new(a, &[a.int(0)?], 1 + g.map_or(0, |_| 1), Some(DType::Long))?;
    let g = g.and_then(|at| a.opt_generator(at)).cloned();
    op::randperm_generator_out.call((a.int(0)?, g, &t))?;
    Ok(t.into())
}

/// randperm.generator_out(SymInt n, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)
fn randperm_out(a: Args<'_>) -> Result<Returns> {
    let (n, out) = (a.int(0)?, a.tensor(2)?);
    check!(n >= 0, "n must be non-negative, got{n}");
    check_fits(n, out.dtype())?;
    let out = resized(out, &[n])?;
    if out.is_meta() {
        return Ok(out.into());
    }
    dispatch!("randperm", out.dtype(), all, T => {
        let mut shuffled: Vec<T> = vec![T::default(); if out.is_contiguous() { 0 } else { n as usize }];
        super::generator(a.opt_generator(1)).with_cpu(|g| {
            if out.is_contiguous() {
                // SAFETY: contiguous, on the CPU, of type T; the caller holds the target for writing.
                permutation::randperm(g, unsafe { out.as_mut_slice::<T>() });
                return;
            }
            permutation::randperm(g, &mut shuffled);
            for (i, value) in shuffled.iter().enumerate() {
                let at = i as isize * out.strides()[0] as isize;
                // SAFETY: element i of a 1-d tensor of n elements of type T.
                unsafe { (out.data_ptr() as *mut T).offset(at).write(*value) };
            }
        })?;
    });
    Ok(out.into())
}

/// `check_supported_max_int_with_precision`: every integer up to `n` must be exact.
fn check_fits(n: i64, dtype: DType) -> Result<()> {
    let integer = |max: i64, name: &str| {
        // Upstream casts the largest index to the dtype, which refuses.
        check!(n - 1 <= max, "value cannot be converted to type {name} without overflow");
        Ok(())
    };
    let float = |max: i64, shown: &str, name: &str| {
        check!(n <= max, "n cannot be greater than {shown} for {name} type.");
        Ok(())
    };
    match dtype {
        DType::Byte => integer(255, "uint8_t"),
        DType::Char => integer(127, "int8_t"),
        DType::Short => integer(i64::from(i16::MAX), "int16_t"),
        DType::Int => integer(i64::from(i32::MAX), "int"),
        DType::Half => float((1 << 11) + 1, "2049", "Half"),
        DType::Float => float((1 << 24) + 1, "2^24+1", "Float"),
        DType::Double => float((1 << 53) + 1, "2^53+1", "Double"),
        _ => Ok(()),
    }
}
