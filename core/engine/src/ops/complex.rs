//! Complex numbers: making them of parts, and conjugates.

use crate::dispatch::Registry;
use crate::iter::TensorIterator;
use crate::iter::blocks::{map1, map2};
use crate::ivalue::Args;
use crate::{Complex, DType, Error, Result, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(op::complex, parts_build, |it, _| match it.input_dtype(0) {
        DType::Double => map2(it, |x: f64, y: f64| Complex::new(x, y)),
        _ => map2(it, |x: f32, y: f32| Complex::new(x, y)),
    });
    r.pointwise(op::polar, parts_build, |it, _| match it.input_dtype(0) {
        DType::Double => map2(it, |r: f64, t: f64| Complex::new(r * t.cos(), r * t.sin())),
        _ => map2(it, |r: f32, t: f32| Complex::new(r * t.cos(), r * t.sin())),
    });
    let conjugate = |a: Args<'_>, out: Option<&Tensor>| TensorIterator::unary_op(out, a.tensor(0)?);
    r.pointwise(op::_conj_physical, conjugate, |it, _| conj(it));
    r.implicit(op::conj_physical, |a| {
        let t = a.tensor(0)?;
        Ok(if t.dtype().is_complex() { op::_conj_physical.call((t,))? } else { t.clone() }.into())
    });
    r.any_device(op::conj_physical_, |a| {
        let t = a.tensor(0)?;
        if t.dtype().is_complex() && !t.is_meta() {
            let it = TensorIterator::config().output(Some(t)).input(t).build()?;
            conj(&it)?;
        }
        Ok(t.into())
    });
}

/// Two real tensors of one dtype, and a complex result.
fn parts_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let real = |t: &Tensor| matches!(t.dtype(), DType::Half | DType::Float | DType::Double);
    check!(
        real(x) && real(y),
        NotImplemented;
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        x.dtype(),
        y.dtype()
    );
    check!(
        x.dtype() == y.dtype(),
        "Expected object of scalar type {} but got scalar type {} for second argument",
        x.dtype(),
        y.dtype()
    );
    let d = x.dtype().to_complex().unwrap_or(DType::ComplexFloat);
    if let Some(o) = out {
        check!(
            o.dtype() == d,
            "Expected object of scalar type {d} but got scalar type {} for argument 'out'",
            o.dtype()
        );
    }
    TensorIterator::config().output(out).input(x).input(y).output_dtype(d).build()
}

fn conj(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        DType::ComplexDouble => map1(it, |z: Complex<f64>| z.conj()),
        DType::ComplexFloat | DType::ComplexHalf => map1(it, |z: Complex<f32>| z.conj()),
        // A real number is its own conjugate.
        DType::Double => map1(it, |x: f64| x),
        DType::Float | DType::Half | DType::BFloat16 => map1(it, |x: f32| x),
        d if d.is_integral(true) => map1(it, |x: i64| x),
        d => Err(Error::dtype_not_implemented("conj_cpu", d)),
    }
}
