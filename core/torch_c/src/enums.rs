//! Enums in the manner of pybind11: classes with named members that convert to int.

use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use std::collections::HashMap;
use std::sync::Mutex;

/// The base of every enum class.
#[pyclass(name = "_Enum", module = "torch._C", subclass, frozen)]
pub struct Enum {
    value: i64,
}

#[pymethods]
impl Enum {
    #[new]
    fn new(value: i64) -> Self {
        Enum { value }
    }

    #[getter]
    fn name<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        for (name, member) in members(&slf.get_type())?.iter() {
            if member.cast::<Enum>()?.get().value == slf.get().value {
                return Ok(name);
            }
        }
        Ok(PyString::new(slf.py(), "???").into_any())
    }

    #[getter]
    fn value(&self) -> i64 {
        self.value
    }

    fn __int__(&self) -> i64 {
        self.value
    }

    fn __index__(&self) -> i64 {
        self.value
    }

    fn __hash__(&self) -> i64 {
        self.value
    }

    fn __richcmp__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let same = other.get_type().is(slf.get_type())
            && other.cast::<Enum>().is_ok_and(|other| other.get().value == slf.get().value);
        Ok(match op {
            CompareOp::Eq => same.into_pyobject(py)?.to_owned().into_any().unbind(),
            CompareOp::Ne => (!same).into_pyobject(py)?.to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        })
    }

    fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("{}.{}", slf.get_type().name()?, Self::name(slf)?))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<{}.{}: {}>", slf.get_type().name()?, Self::name(slf)?, slf.get().value))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (i64,)) {
        (slf.get_type(), (slf.get().value,))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

fn members<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyDict>> {
    Ok(class.getattr("__members__")?.cast_into()?)
}

/// Makes an enum class.
pub fn define<'py, 'a>(
    py: Python<'py>,
    name: &str,
    module: &str,
    pairs: impl Iterator<Item = (&'a str, i64)>,
) -> PyResult<Bound<'py, PyType>> {
    let namespace = PyDict::new(py);
    let entries = PyDict::new(py);
    namespace.set_item("__module__", module)?;
    namespace.set_item("__slots__", PyTuple::empty(py))?;
    namespace.set_item("__members__", &entries)?;
    let bases = PyTuple::new(py, [py.get_type::<Enum>()])?;
    let class = py.get_type::<PyType>().call1((name, bases, namespace))?.cast_into::<PyType>()?;
    for (member, value) in pairs {
        let instance = class.call1((value,))?;
        class.setattr(member, &instance)?;
        entries.set_item(member, instance)?;
    }
    Ok(class)
}

/// The number of an enum member, of whatever enum.
pub fn number(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(object.cast::<Enum>()?.get().value)
}

/// The member of `torch._C.<class>` with this number.
pub fn member<'py>(py: Python<'py>, class: &'static str, value: i64) -> PyResult<Bound<'py, PyAny>> {
    type Members = HashMap<(&'static str, i64), Py<PyAny>>;
    static KNOWN: Mutex<Option<Members>> = Mutex::new(None);
    let lookup = |known: &mut Option<Members>| {
        known.get_or_insert_default().get(&(class, value)).map(|m| m.clone_ref(py))
    };
    if let Some(found) = lookup(&mut KNOWN.lock().expect("the enum table is never poisoned")) {
        return Ok(found.into_bound(py));
    }
    let class_object = py.import("torch._C")?.getattr(class)?.cast_into::<PyType>()?;
    for found in members(&class_object)?.values() {
        if number(&found)? == value {
            let mut known = KNOWN.lock().expect("the enum table is never poisoned");
            known.get_or_insert_default().insert((class, value), found.clone().unbind());
            return Ok(found);
        }
    }
    // A number without a name, as upstream has them too.
    class_object.call1((value,))
}
