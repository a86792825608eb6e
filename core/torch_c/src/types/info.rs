//! `torch.finfo` and `torch.iinfo`: the limits of number types.

use super::dtype;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBool;
use torchnative_engine::DType;

/// Limits of a floating point type: largest value, least value, distance of 1 to the next number, least normal.
struct Limits {
    max: f64,
    min: f64,
    eps: f64,
    tiny: f64,
    resolution: f64,
}

fn limits(dtype: DType) -> Option<Limits> {
    let symmetric = |max: f64, eps, tiny, resolution| Limits { max, min: -max, eps, tiny, resolution };
    // Two to the power of -6, -7, -14, -15, -126 and -127.
    let power = |exponent: i32| 2f64.powi(exponent);
    Some(match dtype {
        DType::Double => symmetric(f64::MAX, f64::EPSILON, f64::MIN_POSITIVE, 1e-15),
        DType::Float => symmetric(f32::MAX.into(), f32::EPSILON.into(), f32::MIN_POSITIVE.into(), 1e-6),
        DType::Half => symmetric(65504.0, power(-10), power(-14), 1e-3),
        DType::BFloat16 => symmetric(half::bf16::MAX.into(), power(-7), power(-126), 1e-2),
        DType::Float8E4M3FN => symmetric(448.0, power(-3), power(-6), 1.0),
        DType::Float8E4M3FNUZ => symmetric(240.0, power(-3), power(-7), 1.0),
        DType::Float8E5M2 => symmetric(57344.0, power(-2), power(-14), 1.0),
        DType::Float8E5M2FNUZ => symmetric(57344.0, power(-2), power(-15), 1.0),
        DType::Float8E8M0FNU => {
            Limits { max: power(127), min: power(-127), eps: 1.0, tiny: power(-127), resolution: 1.0 }
        }
        _ => return None,
    })
}

/// A number as C++ streams print it: six significant digits, exponents of two digits.
fn general(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

fn compare(same: bool, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
    let py = other.py();
    match op {
        CompareOp::Eq => PyBool::new(py, same).to_owned().into_any().unbind(),
        CompareOp::Ne => PyBool::new(py, !same).to_owned().into_any().unbind(),
        _ => py.NotImplemented(),
    }
}

fn wanted(name: &str, given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let kind = given.get_type().name()?;
    dtype::from_py(given).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{name}(): argument 'type' (position 1) must be torch.dtype, not {kind}"
        ))
    })
}

/// The limits of a floating point type.
#[pyclass(name = "finfo", module = "torch", frozen)]
pub struct FInfo {
    dtype: DType,
    limits: Limits,
}

#[pymethods]
impl FInfo {
    #[new]
    #[pyo3(signature = (r#type = None))]
    fn new(r#type: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let dtype = match r#type {
            Some(given) => wanted("finfo", given)?,
            None => crate::flags::default_dtype(),
        };
        let dtype = dtype.to_real();
        if !dtype.is_floating_point() {
            return Err(PyTypeError::new_err(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'",
            ));
        }
        match limits(dtype) {
            Some(limits) => Ok(FInfo { dtype, limits }),
            None => Err(PyTypeError::new_err(format!(
                "torch.{} is not supported by torch.finfo",
                dtype.torch_name()
            ))),
        }
    }

    #[getter]
    fn bits(&self) -> usize {
        self.dtype.itemsize() * 8
    }
    #[getter]
    fn eps(&self) -> f64 {
        self.limits.eps
    }
    #[getter]
    fn max(&self) -> f64 {
        self.limits.max
    }
    #[getter]
    fn min(&self) -> f64 {
        self.limits.min
    }
    #[getter]
    fn tiny(&self) -> f64 {
        self.limits.tiny
    }
    #[getter]
    fn smallest_normal(&self) -> f64 {
        self.limits.tiny
    }
    #[getter]
    fn resolution(&self) -> f64 {
        self.limits.resolution
    }
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.torch_name()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let same = other.cast::<FInfo>().is_ok_and(|other| other.get().dtype == self.dtype);
        compare(same, other, op)
    }

    fn __repr__(&self) -> String {
        let Limits { max, min, eps, tiny, resolution } = self.limits;
        format!(
            "finfo(resolution={}, min={}, max={}, eps={}, smallest_normal={}, tiny={}, dtype={})",
            general(resolution),
            general(min),
            general(max),
            general(eps),
            general(tiny),
            general(tiny),
            self.dtype.torch_name()
        )
    }
}

/// The limits of an integer type.
#[pyclass(name = "iinfo", module = "torch", frozen)]
pub struct IInfo {
    dtype: DType,
}

impl IInfo {
    fn range(&self) -> (i128, i128) {
        let bits = self.dtype.itemsize() * 8;
        match self.dtype.is_signed() {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        }
    }
}

#[pymethods]
impl IInfo {
    #[new]
    #[pyo3(signature = (r#type = None))]
    fn new(r#type: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(given) = r#type else {
            return Err(PyTypeError::new_err("iinfo() missing 1 required positional arguments: \"type\""));
        };
        let dtype = wanted("iinfo", given)?;
        if dtype == DType::Bool {
            return Err(PyTypeError::new_err("torch.bool is not supported by torch.iinfo"));
        }
        if dtype.is_quantized() {
            return Err(PyNotImplementedError::new_err(format!("\"dtype\" not implemented for '{dtype}'")));
        }
        if !dtype.is_integral(false) {
            return Err(PyTypeError::new_err(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'",
            ));
        }
        Ok(IInfo { dtype })
    }

    #[getter]
    fn bits(&self) -> usize {
        self.dtype.itemsize() * 8
    }
    #[getter]
    fn max(&self) -> i128 {
        self.range().1
    }
    #[getter]
    fn min(&self) -> i128 {
        self.range().0
    }
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.torch_name()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let same = other.cast::<IInfo>().is_ok_and(|other| other.get().dtype == self.dtype);
        compare(same, other, op)
    }

    fn __repr__(&self) -> String {
        let (min, max) = self.range();
        format!(
            "iinfo(min={}, max={}, dtype={})",
            general(min as f64),
            general(max as f64),
            self.dtype.torch_name()
        )
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FInfo>()?;
    module.add_class::<IInfo>()
}
