//! One C entry point for each function of the table: CPython hands a method no data of its own, so the index is part of
//! the code.

use super::call;
use pyo3::ffi;

/// A method that takes its arguments as a vector.
pub type Entry = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

unsafe extern "C" fn enter<const I: usize>(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    call::enter(I, slf, args, nargs, kwnames)
}

macro_rules! row {
    ($b:expr) => {
        [
            enter::<{ $b }>,
            enter::<{ $b + 1 }>,
            enter::<{ $b + 2 }>,
            enter::<{ $b + 3 }>,
            enter::<{ $b + 4 }>,
            enter::<{ $b + 5 }>,
            enter::<{ $b + 6 }>,
            enter::<{ $b + 7 }>,
            enter::<{ $b + 8 }>,
            enter::<{ $b + 9 }>,
            enter::<{ $b + 10 }>,
            enter::<{ $b + 11 }>,
            enter::<{ $b + 12 }>,
            enter::<{ $b + 13 }>,
            enter::<{ $b + 14 }>,
            enter::<{ $b + 15 }>,
        ]
    };
}

#[rustfmt::skip]
static ENTRIES: [[Entry; 16]; 112] = [
    row!(0),
    row!(16),
    row!(32),
    row!(48),
    row!(64),
    row!(80),
    row!(96),
    row!(112),
    row!(128),
    row!(144),
    row!(160),
    row!(176),
    row!(192),
    row!(208),
    row!(224),
    row!(240),
    row!(256),
    row!(272),
    row!(288),
    row!(304),
    row!(320),
    row!(336),
    row!(352),
    row!(368),
    row!(384),
    row!(400),
    row!(416),
    row!(432),
    row!(448),
    row!(464),
    row!(480),
    row!(496),
    row!(512),
    row!(528),
    row!(544),
    row!(560),
    row!(576),
    row!(592),
    row!(608),
    row!(624),
    row!(640),
    row!(656),
    row!(672),
    row!(688),
    row!(704),
    row!(720),
    row!(736),
    row!(752),
    row!(768),
    row!(784),
    row!(800),
    row!(816),
    row!(832),
    row!(848),
    row!(864),
    row!(880),
    row!(896),
    row!(912),
    row!(928),
    row!(944),
    row!(960),
    row!(976),
    row!(992),
    row!(1008),
    row!(1024),
    row!(1040),
    row!(1056),
    row!(1072),
    row!(1088),
    row!(1104),
    row!(1120),
    row!(1136),
    row!(1152),
    row!(1168),
    row!(1184),
    row!(1200),
    row!(1216),
    row!(1232),
    row!(1248),
    row!(1264),
    row!(1280),
    row!(1296),
    row!(1312),
    row!(1328),
    row!(1344),
    row!(1360),
    row!(1376),
    row!(1392),
    row!(1408),
    row!(1424),
    row!(1440),
    row!(1456),
    row!(1472),
    row!(1488),
    row!(1504),
    row!(1520),
    row!(1536),
    row!(1552),
    row!(1568),
    row!(1584),
    row!(1600),
    row!(1616),
    row!(1632),
    row!(1648),
    row!(1664),
    row!(1680),
    row!(1696),
    row!(1712),
    row!(1728),
    row!(1744),
    row!(1760),
    row!(1776),
];

/// The entry point of function number `index`.
///
/// # Panics
/// When the table outgrows the entry points, which a test excludes.
pub fn entry(index: usize) -> Entry {
    ENTRIES[index / 16][index % 16]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_function_has_an_entry() {
        assert!(super::super::table::functions().len() <= super::ENTRIES.len() * 16);
    }
}
