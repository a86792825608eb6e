//! Random operators: factories (`rand`, `randn`, `randint`, `randperm`), in-place samplers (`uniform_`, `normal_`, …),
//! `normal` with tensors, `bernoulli`, `multinomial`, dropout. The streams are in [`crate::random`].

mod bernoulli;
mod dropout;
mod factories;
mod multinomial;
mod normal;
mod randint;
mod samplers;

use crate::dispatch::Registry;
use crate::iter::TensorIterator;
use crate::ivalue::IntList;
use crate::random::{CpuGenerator, Sample};
use crate::{DType, Generator, Result, Tensor};

pub(crate) fn register(r: &mut Registry) {
    bernoulli::register(r);
    dropout::register(r);
    factories::register(r);
    multinomial::register(r);
    normal::register(r);
    randint::register(r);
    samplers::register(r);
}

/// Registers the functional form of an in-place sampler: a clone is filled.
macro_rules! functional {
    ($r:expr, $($functional:ident => $inplace:ident),* $(,)?) => {$(
        $r.explicit(crate::op::$functional, |a| {
            let target = crate::op::clone.call((a.tensor(0)?,))?;
            let mut stack = crate::Stack::from(a.0);
            stack[0] = (&target).into();
            crate::dispatch::call(crate::op::$inplace, &mut stack)?;
            Ok(target.into())
        });
    )*};
}
use functional;

/// The generator of a call.
fn generator(given: Option<&Generator>) -> &Generator {
    given.unwrap_or_else(|| Generator::default_cpu())
}

/// Fills a CPU tensor, in the order of its memory, with elements of type `T`.
fn fill<T: Copy + Default>(t: &Tensor, g: Option<&Generator>, sampler: &impl Sample<T>) -> Result<()> {
    let it = TensorIterator::nullary_op(t)?;
    generator(g).with_cpu(|g| fill_iteration(&it, g, sampler))
}

fn fill_iteration<T: Copy + Default>(it: &TensorIterator, g: &mut CpuGenerator, sampler: &impl Sample<T>) {
    it.serial_for_each(|p, strides, n| {
        if strides[0] == size_of::<T>() as i64 {
            // SAFETY: the walk stays inside the output, whose loop dtype is T; this run is contiguous.
            sampler.fill(g, unsafe { std::slice::from_raw_parts_mut(p[0] as *mut T, n) });
            return;
        }
        // Drawn in bulk, then scattered.
        let mut drawn = [T::default(); 64];
        for start in (0..n).step_by(drawn.len()) {
            let drawn = &mut drawn[..(n - start).min(64)];
            sampler.fill(g, drawn);
            for (i, value) in drawn.iter().enumerate() {
                let offset = (start + i) as isize * strides[0] as isize;
                // SAFETY: as above, one element at a time.
                unsafe { (p[0].wrapping_offset(offset) as *mut T).write(*value) };
            }
        }
    });
}

/// A complex tensor as a real one of twice the numbers; any other as it is.
fn as_real(t: &Tensor) -> Tensor {
    if !t.dtype().is_complex() {
        return t.clone();
    }
    let mut sizes = IntList::from_slice(t.sizes());
    let mut strides: IntList = t.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    let real = t.alias_with(sizes, strides, t.storage_offset() * 2);
    real.set_dtype(t.dtype().to_real());
    real
}

/// A double as C++ streams print it: six significant digits.
fn cpp(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".into() } else { format!("{value}") };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("an integer exponent");
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

/// The bits of a bool are one byte: samplers fill it as one.
fn byte_view(t: &Tensor) -> Tensor {
    if t.dtype() != DType::Bool {
        return t.clone();
    }
    let bytes =
        t.alias_with(IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()), t.storage_offset());
    bytes.set_dtype(DType::Byte);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_cpp() {
        let cases = [
            (2.0, "2"),
            (-0.5, "-0.5"),
            (3e38, "3e+38"),
            (1.23456789, "1.23457"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (123456.7, "123457"),
            (1234567.0, "1.23457e+06"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
            (0.0, "0"),
        ];
        for (value, want) in cases {
            assert_eq!(cpp(value), want);
        }
    }
}
