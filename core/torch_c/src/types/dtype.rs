//! `torch.dtype`: one object an element type.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use torchnative_engine::DType;

/// An element type.
#[pyclass(name = "dtype", module = "torch", frozen)]
pub struct PyDtype {
    dtype: DType,
}

/// Older names and the dtype each stands for.
const ALIASES: &[(&str, &str)] = &[
    ("short", "int16"),
    ("int", "int32"),
    ("long", "int64"),
    ("half", "float16"),
    ("float", "float32"),
    ("double", "float64"),
    ("chalf", "complex32"),
    ("cfloat", "complex64"),
    ("cdouble", "complex128"),
    ("bit", "uint1"),
];

const SLOTS: usize = 64;
static OBJECTS: [PyOnceLock<Py<PyDtype>>; SLOTS] = [const { PyOnceLock::new() }; SLOTS];

/// The dtype object; always the same one for the same type.
pub fn to_py(py: Python<'_>, dtype: DType) -> Bound<'_, PyDtype> {
    OBJECTS[dtype as usize]
        .get_or_init(py, || Py::new(py, PyDtype { dtype }).expect("a dtype object is a few bytes"))
        .bind(py)
        .clone()
}

/// The element type of a dtype object, `None` for any other object.
pub fn from_py(object: &Bound<'_, PyAny>) -> Option<DType> {
    object.cast::<PyDtype>().ok().map(|object| object.get().dtype)
}

fn abbreviation(dtype: DType) -> String {
    let name = dtype.torch_name();
    match name {
        "bool" => return "b8".into(),
        "bits8" => return "b8x1".into(),
        "bits16" => return "b16x1".into(),
        _ => {}
    }
    // Widths below a byte and quantised types have no short form.
    let plain = |digits: &str| digits.parse::<u32>().is_ok_and(|width| width >= 8);
    for (long, short) in [("uint", "u"), ("int", "i"), ("bfloat", "bf"), ("bcomplex", "bc"), ("complex", "c")]
    {
        if let Some(digits) = name.strip_prefix(long)
            && plain(digits)
        {
            return format!("{short}{digits}");
        }
    }
    if let Some(rest) = name.strip_prefix("float") {
        return format!("f{}", rest.replace('_', ""));
    }
    name.strip_prefix("bits").map_or_else(|| name.to_owned(), |rest| format!("b{rest}"))
}

#[pymethods]
impl PyDtype {
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.dtype.is_floating_point()
    }

    #[getter]
    fn is_complex(&self) -> bool {
        self.dtype.is_complex()
    }

    #[getter]
    fn is_signed(&self) -> PyResult<bool> {
        if self.dtype.is_quantized() {
            return Err(PyRuntimeError::new_err("isSignedType not supported for quantized types"));
        }
        if self.dtype.torch_name().starts_with("bits") {
            return Err(PyRuntimeError::new_err("Bits types are undefined"));
        }
        Ok(self.dtype.is_signed())
    }

    #[getter]
    fn itemsize(&self) -> usize {
        self.dtype.itemsize()
    }

    #[getter]
    fn abbr(&self) -> String {
        abbreviation(self.dtype)
    }

    fn to_real<'py>(&self, py: Python<'py>) -> Bound<'py, PyDtype> {
        to_py(py, self.dtype.to_real())
    }

    fn to_complex<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDtype>> {
        match self.dtype.to_complex() {
            Some(complex) => Ok(to_py(py, complex)),
            None => Err(PyRuntimeError::new_err(format!("Unknown Complex ScalarType for {}", self.dtype))),
        }
    }

    fn __repr__(&self) -> String {
        format!("torch.{}", self.dtype.torch_name())
    }

    /// Pickles as an attribute of `torch`.
    fn __reduce__(&self) -> &'static str {
        self.dtype.torch_name()
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

#[pyfunction]
fn _get_all_dtypes(py: Python<'_>) -> Vec<Bound<'_, PyDtype>> {
    let listed = |dtype: &&DType| {
        !dtype.is_quantized() && !matches!(abbreviation(**dtype).as_bytes(), [b'u' | b'i', b'i' | b'n', ..])
    };
    DType::ALL.iter().filter(listed).map(|dtype| to_py(py, *dtype)).collect()
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDtype>()?;
    module.add_function(wrap_pyfunction!(_get_all_dtypes, module)?)
}

/// Sets `torch.float32` and its kin.
pub fn export(torch: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = torch.py();
    for dtype in DType::ALL {
        torch.setattr(dtype.torch_name(), to_py(py, *dtype))?;
    }
    for (alias, name) in ALIASES {
        if let Some(dtype) = DType::from_torch_name(name) {
            torch.setattr(*alias, to_py(py, dtype))?;
        }
    }
    Ok(())
}
