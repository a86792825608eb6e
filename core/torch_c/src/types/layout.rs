//! `torch.layout`, `torch.memory_format` and `torch.qscheme`: fixed sets of named objects.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use torchnative_engine::{Layout, MemoryFormat};

/// How elements are laid out in memory.
#[pyclass(name = "layout", module = "torch", frozen)]
pub struct PyLayout {
    layout: Layout,
}

#[pymethods]
impl PyLayout {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.layout.name())
    }
}

/// The order of the dimensions in memory.
#[pyclass(name = "memory_format", module = "torch", frozen)]
pub struct PyMemoryFormat {
    format: MemoryFormat,
}

#[pymethods]
impl PyMemoryFormat {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.format.name())
    }

    /// Pickles as an attribute of `torch`.
    fn __reduce__(&self) -> &'static str {
        self.format.name()
    }
}

/// How a quantised tensor maps integers to reals.
#[pyclass(name = "qscheme", module = "torch", frozen)]
pub struct PyQScheme {
    number: usize,
}

/// The schemes, by upstream's numbers.
pub const QSCHEMES: [&str; 5] = [
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
];

#[pymethods]
impl PyQScheme {
    fn __repr__(&self) -> String {
        format!("torch.{}", QSCHEMES[self.number])
    }

    fn __reduce__(&self) -> &'static str {
        QSCHEMES[self.number]
    }
}

static LAYOUTS: [PyOnceLock<Py<PyLayout>>; 8] = [const { PyOnceLock::new() }; 8];
static FORMATS: [PyOnceLock<Py<PyMemoryFormat>>; 4] = [const { PyOnceLock::new() }; 4];
static SCHEMES: [PyOnceLock<Py<PyQScheme>>; 5] = [const { PyOnceLock::new() }; 5];

/// The layout object; always the same one for the same layout.
pub fn layout_to_py(py: Python<'_>, layout: Layout) -> Bound<'_, PyLayout> {
    LAYOUTS[layout as usize]
        .get_or_init(py, || Py::new(py, PyLayout { layout }).expect("a layout object is a few bytes"))
        .bind(py)
        .clone()
}

/// The layout of a layout object, `None` for any other object.
pub fn layout_from_py(object: &Bound<'_, PyAny>) -> Option<Layout> {
    object.cast::<PyLayout>().ok().map(|object| object.get().layout)
}

/// The memory format object; always the same one for the same format.
pub fn format_to_py(py: Python<'_>, format: MemoryFormat) -> Bound<'_, PyMemoryFormat> {
    FORMATS[format as usize]
        .get_or_init(py, || Py::new(py, PyMemoryFormat { format }).expect("a format object is a few bytes"))
        .bind(py)
        .clone()
}

/// The format of a memory format object, `None` for any other object.
pub fn format_from_py(object: &Bound<'_, PyAny>) -> Option<MemoryFormat> {
    object.cast::<PyMemoryFormat>().ok().map(|object| object.get().format)
}

/// The scheme object with upstream's number.
pub fn scheme_to_py(py: Python<'_>, number: usize) -> Bound<'_, PyQScheme> {
    SCHEMES[number]
        .get_or_init(py, || Py::new(py, PyQScheme { number }).expect("a scheme object is a few bytes"))
        .bind(py)
        .clone()
}

/// The number of a scheme object, `None` for any other object.
pub fn scheme_from_py(object: &Bound<'_, PyAny>) -> Option<usize> {
    object.cast::<PyQScheme>().ok().map(|object| object.get().number)
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyLayout>()?;
    module.add_class::<PyMemoryFormat>()?;
    module.add_class::<PyQScheme>()
}

/// Sets `torch.strided`, `torch.channels_last`, `torch.per_tensor_affine` and their kin.
pub fn export(torch: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = torch.py();
    for layout in Layout::ALL {
        torch.setattr(layout.name(), layout_to_py(py, layout))?;
    }
    for format in MemoryFormat::ALL {
        torch.setattr(format.name(), format_to_py(py, format))?;
    }
    for (number, name) in QSCHEMES.into_iter().enumerate() {
        torch.setattr(name, scheme_to_py(py, number))?;
    }
    Ok(())
}
