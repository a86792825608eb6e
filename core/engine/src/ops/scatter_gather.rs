//! One index a position: `gather`, the scatter family, `index_select`, `index_add`, `index_copy`, `index_fill`,
//! `take`, `embedding`.

use super::copy::{contiguous, convert, copy_into};
use super::elements::{at_least_1d, by_size, index_values, rows};
use super::options::item;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, memory, shape};
use crate::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::gather, gather_spec, gather);
    r.structured(
        op::scatter_src,
        |a| scatter_spec(a, Some(3), "scatter"),
        |a, o| scatter_src(a, o, Mode::Set),
    );
    r.structured(
        op::scatter_value,
        |a| scatter_spec(a, None, "scatter"),
        |a, o| scatter_value(a, o, Mode::Set),
    );
    r.structured(
        op::scatter_reduce,
        |a| scatter_spec(a, Some(3), "scatter"),
        |a, o| scatter_src(a, o, legacy_mode(a.str(4)?)?),
    );
    r.structured(
        op::scatter_value_reduce,
        |a| scatter_spec(a, None, "scatter"),
        |a, o| scatter_value(a, o, legacy_mode(a.str(4)?)?),
    );
    r.structured(
        op::scatter_add,
        |a| scatter_spec(a, Some(3), "scatter"),
        |a, o| scatter_src(a, o, Mode::Add),
    );
    r.structured(op::scatter_reduce_two, |a| scatter_spec(a, Some(3), "scatter"), scatter_reduce);
    r.any_device(op::scatter__src, |a| in_place(a, Some(3), |a, o| scatter_src(a, o, Mode::Set)));
    r.any_device(op::scatter__value, |a| in_place(a, None, |a, o| scatter_value(a, o, Mode::Set)));
    r.any_device(op::scatter_add_, |a| in_place(a, Some(3), |a, o| scatter_src(a, o, Mode::Add)));
    r.structured(op::index_select, select_spec, index_select);
    r.structured(op::index_add, add_spec, |a, o| {
        copy_into(&o[0], a.tensor(0)?)?;
        index_add(a, &o[0])
    });
    r.any_device(op::index_add_, |a| {
        add_spec(a)?;
        let t = a.tensor(0)?;
        memory::assert_no_internal_overlap(t)?;
        if !t.is_meta() {
            index_add(a, t)?;
        }
        Ok(t.into())
    });
    r.structured(op::index_copy, copy_spec, |a, o| {
        copy_into(&o[0], a.tensor(0)?)?;
        index_copy(a, &o[0])
    });
    r.any_device(op::index_copy_, |a| {
        copy_spec(a)?;
        let t = a.tensor(0)?;
        memory::assert_no_internal_overlap(t)?;
        if !t.is_meta() {
            index_copy(a, t)?;
        }
        Ok(t.into())
    });
    r.any_device(op::index_fill__int_Scalar, |a| {
        index_fill(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.scalar(3)?)?;
        Ok(a.tensor(0)?.into())
    });
    r.any_device(op::index_fill__int_Tensor, |a| {
        index_fill(a.tensor(0)?, a.int(1)?, a.tensor(2)?, fill_value(a.tensor(3)?)?)?;
        Ok(a.tensor(0)?.into())
    });
    r.explicit(op::index_fill_int_Scalar, |a| {
        let copy = op::clone.call((a.tensor(0)?, MemoryFormat::Preserve))?;
        Ok(op::index_fill__int_Scalar.call((copy, a.int(1)?, a.tensor(2)?, a.scalar(3)?))?.into())
    });
    r.explicit(op::index_fill_int_Tensor, |a| {
        let copy = op::clone.call((a.tensor(0)?, MemoryFormat::Preserve))?;
        Ok(op::index_fill__int_Tensor.call((copy, a.int(1)?, a.tensor(2)?, a.tensor(3)?))?.into())
    });
    r.structured(op::take, take_spec, take).any_device(op::put_, put_);
    r.implicit(op::take_along_dim, take_along_dim);
    r.explicit(op::embedding, embedding).any_device(op::embedding_dense_backward, embedding_dense_backward);
}

/// What a scattered value does to the one that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Set,
    Add,
    Mul,
    Max,
    Min,
}

/// Arithmetic with upstream's wrapping and NaN rules.
pub(crate) trait Arith: Copy {
    fn plus(self, o: Self) -> Self;
    fn times(self, o: Self) -> Self;
    /// The greater; NaN wins.
    fn most(self, o: Self) -> Self;
    /// The lesser; NaN wins.
    fn least(self, o: Self) -> Self;
    /// The mean of a sum over `n`; integers round down.
    fn over(self, n: i64) -> Self;
    const LOWEST: Self;
    const HIGHEST: Self;
    const ZERO: Self;
    const ONE: Self;
}

macro_rules! arith_int {
    ($($t:ty),*) => {$(impl Arith for $t {
        fn plus(self, o: Self) -> Self { self.wrapping_add(o) }
        fn times(self, o: Self) -> Self { self.wrapping_mul(o) }
        fn most(self, o: Self) -> Self { self.max(o) }
        fn least(self, o: Self) -> Self { self.min(o) }
        fn over(self, n: i64) -> Self { (self as i128).div_euclid(n as i128) as $t }
        const LOWEST: Self = <$t>::MIN;
        const HIGHEST: Self = <$t>::MAX;
        const ZERO: Self = 0;
        const ONE: Self = 1;
    })*};
}
arith_int!(u8, i8, i16, i32, i64);
macro_rules! arith_float {
    ($($t:ty, $from:expr, $zero:expr, $one:expr);*) => {$(impl Arith for $t {
        fn plus(self, o: Self) -> Self { self + o }
        fn times(self, o: Self) -> Self { self * o }
        fn most(self, o: Self) -> Self { if self.is_nan() || self > o { self } else { o } }
        fn least(self, o: Self) -> Self { if self.is_nan() || self < o { self } else { o } }
        fn over(self, n: i64) -> Self { self / $from(n) }
        const LOWEST: Self = <$t>::NEG_INFINITY;
        const HIGHEST: Self = <$t>::INFINITY;
        const ZERO: Self = $zero;
        const ONE: Self = $one;
    })*};
}
arith_float! {
    f32, |n: i64| n as f32, 0.0, 1.0;
    f64, |n: i64| n as f64, 0.0, 1.0;
    half::f16, |n: i64| half::f16::from_f32(n as f32), half::f16::ZERO, half::f16::ONE;
    half::bf16, |n: i64| half::bf16::from_f32(n as f32), half::bf16::ZERO, half::bf16::ONE
}
macro_rules! arith_complex {
    ($($t:ty),*) => {$(impl Arith for crate::Complex<$t> {
        fn plus(self, o: Self) -> Self { self + o }
        fn times(self, o: Self) -> Self { self * o }
        // Complex numbers have no order: callers refuse them before they come here.
        fn most(self, o: Self) -> Self { o }
        fn least(self, o: Self) -> Self { o }
        fn over(self, n: i64) -> Self { self / (n as $t) }
        const LOWEST: Self = Self::new(0.0, 0.0);
        const HIGHEST: Self = Self::new(0.0, 0.0);
        const ZERO: Self = Self::new(0.0, 0.0);
        const ONE: Self = Self::new(1.0, 0.0);
    })*};
}
arith_complex!(f32, f64);
impl Arith for bool {
    fn plus(self, o: Self) -> Self {
        self || o
    }
    fn times(self, o: Self) -> Self {
        self && o
    }
    fn most(self, o: Self) -> Self {
        self || o
    }
    fn least(self, o: Self) -> Self {
        self && o
    }
    fn over(self, _n: i64) -> Self {
        self
    }
    const LOWEST: Self = false;
    const HIGHEST: Self = true;
    const ZERO: Self = false;
    const ONE: Self = true;
}

fn legacy_mode(s: &str) -> Result<Mode> {
    Ok(match s {
        "add" => Mode::Add,
        "multiply" => Mode::Mul,
        _ => bail!(Runtime, "reduce argument must be either add or multiply."),
    })
}

fn index_dtype(index: &Tensor, name: &str) -> Result<()> {
    check!(
        matches!(index.dtype(), DType::Long | DType::Int) || index.numel() == 0,
        "{name}(): Expected dtype int32/int64 for index"
    );
    Ok(())
}

fn rank(t: &Tensor) -> usize {
    t.dim().max(1)
}
fn extent(t: &Tensor, d: usize) -> i64 {
    if t.dim() == 0 { 1 } else { t.sizes()[d] }
}

fn gather_spec(a: Args<'_>) -> Result<Specs> {
    let (t, index) = (a.tensor(0)?, a.tensor(2)?);
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    index_dtype(index, "gather")?;
    if index.numel() > 0 {
        check!(
            rank(index) == rank(t),
            "Index tensor must have the same number of dimensions as input tensor"
        );
        for d in (0..rank(t)).filter(|d| *d != dim) {
            check!(
                extent(index, d) <= extent(t, d),
                "Size does not match at dimension {d} expected index {:?} to be no larger than self {:?} apart from dimension \
                 {dim}",
                index.sizes(),
                t.sizes()
            );
        }
    }
    Ok(OutSpec::like(t, index.sizes()).into())
}

/// An index as row-major int64 with one dimension at least.
fn wide_index(index: &Tensor) -> Result<Tensor> {
    Ok(at_least_1d(&contiguous(&convert(index, DType::Long)?)?))
}

fn gather(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, index) = (a.tensor(0)?, a.tensor(2)?);
    if index.numel() == 0 {
        return Ok(());
    }
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    let resolved = if t.is_conj() || t.is_neg() { contiguous(t)? } else { t.clone() };
    let (t, index, out) = (at_least_1d(&resolved), wide_index(index)?, at_least_1d(&out[0]));
    let (n, size) = (index.sizes()[dim], t.sizes()[dim]);
    let (si, st, so) = (index.strides()[dim], t.strides()[dim], out.strides()[dim]);
    let idx = index.data_ptr() as *const i64;
    let mut bad = None;
    by_size!(t.itemsize(), T => {
        let (src, dst) = (t.data_ptr() as *const T, out.data_ptr() as *mut T);
        rows(index.sizes(), [index.strides(), t.strides(), out.strides()], dim, |[bi, bt, bo]| {
            for k in 0..n {
                // SAFETY: positions lie inside the index, whose extents fit both tensors; the value is checked.
                unsafe {
                    let v = *idx.offset((bi + k * si) as isize);
                    if v < 0 || v >= size {
                        bad = Some(v);
                        continue;
                    }
                    *dst.offset((bo + k * so) as isize) = *src.offset((bt + v * st) as isize);
                }
            }
        });
    });
    out_of_bounds(bad, dim, size)
}

fn out_of_bounds(bad: Option<i64>, dim: usize, size: i64) -> Result<()> {
    match bad {
        None => Ok(()),
        Some(v) => bail!(Runtime, "index {v} is out of bounds for dimension {dim} with size {size}"),
    }
}

fn scatter_spec(a: Args<'_>, src: Option<usize>, name: &str) -> Result<Specs> {
    let (t, index) = (a.tensor(0)?, a.tensor(2)?);
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    index_dtype(index, name)?;
    if let Some(i) = src {
        check!(a.tensor(i)?.dtype() == t.dtype(), "{name}(): Expected self.dtype to be equal to src.dtype");
    }
    if index.numel() > 0 {
        check!(rank(index) == rank(t), "Index tensor must have the same number of dimensions as self tensor");
        let mut fits = (0..rank(t)).filter(|d| *d != dim).all(|d| extent(index, d) <= extent(t, d));
        if let Some(i) = src {
            let src = a.tensor(i)?;
            check!(
                rank(src) == rank(index),
                "Index tensor must have the same number of dimensions as src tensor"
            );
            fits &= (0..rank(t)).all(|d| extent(index, d) <= extent(src, d));
            check!(
                fits,
                "Expected index {:?} to be no larger than self {:?} apart from dimension {dim} and to be no larger size than \
                 src {:?}",
                index.sizes(),
                t.sizes(),
                src.sizes()
            );
        }
        check!(
            fits,
            "Expected index {:?} to be no larger than self {:?} apart from dimension {dim}",
            index.sizes(),
            t.sizes()
        );
    }
    if a.len() > 4 && src.is_some() && name == "scatter" {
        check_reduce(a)?;
    }
    Ok(OutSpec::like(t, t.sizes()).into())
}

/// The name of a reduction, where there is one, is checked before anything is written.
fn check_reduce(a: Args<'_>) -> Result<()> {
    if a.len() == 6 {
        let s = a.str(4)?;
        check!(
            matches!(s, "sum" | "prod" | "mean" | "amax" | "amin"),
            "reduce argument must be either sum, prod, mean, amax or amin, got {s}"
        );
    } else if a.len() == 5 {
        legacy_mode(a.str(4)?)?;
    }
    Ok(())
}

fn in_place(a: Args<'_>, src: Option<usize>, f: fn(Args<'_>, &[Tensor]) -> Result<()>) -> Result<Returns> {
    scatter_spec(a, src, "scatter")?;
    let t = a.tensor(0)?;
    memory::assert_no_internal_overlap(t)?;
    for i in [Some(2), src].into_iter().flatten() {
        memory::assert_no_overlap(t, a.tensor(i)?)?;
    }
    if !t.is_meta() {
        f(a, std::slice::from_ref(t))?;
    }
    Ok(t.into())
}

fn scatter_src(a: Args<'_>, out: &[Tensor], mode: Mode) -> Result<()> {
    copy_into(&out[0], a.tensor(0)?)?;
    let src = a.tensor(3)?;
    let src = if src.is_conj() || src.is_neg() { contiguous(src)? } else { src.clone() };
    scatter(&out[0], a.int(1)?, a.tensor(2)?, &src, mode)
}

/// A number scatters as a tensor of stride 0.
fn scatter_value(a: Args<'_>, out: &[Tensor], mode: Mode) -> Result<()> {
    copy_into(&out[0], a.tensor(0)?)?;
    let index = a.tensor(2)?;
    let one = factory::scalar_tensor(a.scalar(3)?, out[0].dtype())?;
    scatter(&out[0], a.int(1)?, index, &super::views::expanded(&one, index.sizes())?, mode)
}

/// Writes `src` at the positions of `index` along `dim`, in order.
fn scatter(out: &Tensor, dim: i64, index: &Tensor, src: &Tensor, mode: Mode) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    check!(
        !out.is_conj() && !out.is_neg(),
        NotImplemented;
        "scattering into a lazily conjugated or negated tensor"
    );
    if mode == Mode::Set {
        by_size!(out.itemsize(), T => walk::<T>(out, dim, index, src, |d, v| *d = v)?);
        return Ok(());
    }
    check!(
        !out.dtype().is_complex() || matches!(mode, Mode::Add | Mode::Mul),
        NotImplemented;
        "scatter_reduce with amax or amin is not implemented for '{}'", out.dtype()
    );
    dispatch!("scatter", out.dtype(), all_complex, T => match mode {
        Mode::Add => walk::<T>(out, dim, index, src, |d, v| *d = d.plus(v))?,
        Mode::Mul => walk::<T>(out, dim, index, src, |d, v| *d = d.times(v))?,
        Mode::Max => walk::<T>(out, dim, index, src, |d, v| *d = d.most(v))?,
        _ => walk::<T>(out, dim, index, src, |d, v| *d = d.least(v))?,
    });
    Ok(())
}

fn walk<T: Copy>(out: &Tensor, dim: i64, index: &Tensor, src: &Tensor, f: impl Fn(&mut T, T)) -> Result<()> {
    // Strides of an expanded index are kept: it repeats for every position of the other dimensions.
    let index =
        at_least_1d(&if index.dtype() == DType::Long { index.clone() } else { convert(index, DType::Long)? });
    let (out, src) = (at_least_1d(out), at_least_1d(src));
    let dim = shape::wrap_dim(dim, out.dim())?;
    let (n, size) = (index.sizes()[dim], out.sizes()[dim]);
    let (si, so, ss) = (index.strides()[dim], out.strides()[dim], src.strides()[dim]);
    let (idx, dst, from) =
        (index.data_ptr() as *const i64, out.data_ptr() as *mut T, src.data_ptr() as *const T);
    let mut bad = None;
    rows(index.sizes(), [index.strides(), out.strides(), src.strides()], dim, |[bi, bo, bs]| {
        for k in 0..n {
            // SAFETY: positions lie inside the index, whose extents fit both tensors; the value is checked.
            unsafe {
                let v = *idx.offset((bi + k * si) as isize);
                if v < 0 || v >= size {
                    bad = Some(v);
                    continue;
                }
                f(&mut *dst.offset((bo + v * so) as isize), *from.offset((bs + k * ss) as isize));
            }
        }
    });
    out_of_bounds(bad, dim, size)
}

/// scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
fn scatter_reduce(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, dim, index, src, out) = (a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, &out[0]);
    copy_into(out, t)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let (reduce, include) = (a.str(4)?, a.bool(5)?);
    let src = contiguous(src)?;
    let mode = match reduce {
        "sum" | "mean" => Mode::Add,
        "prod" => Mode::Mul,
        "amax" => Mode::Max,
        _ => Mode::Min,
    };
    if !include {
        // What is written starts from the neutral element.
        let start = factory::empty(&[], out.dtype(), out.device())?;
        // SAFETY: a fresh 0-d tensor of the matched type.
        dispatch!("scatter_reduce", out.dtype(), all_complex, T => unsafe {
            *(start.data_ptr() as *mut T) = match mode {
                Mode::Mul => T::ONE,
                Mode::Max => T::LOWEST,
                Mode::Min => T::HIGHEST,
                _ => T::ZERO,
            };
        });
        scatter(out, dim, index, &super::views::expanded(&start, index.sizes())?, Mode::Set)?;
    }
    scatter(out, dim, index, &src, mode)?;
    if reduce == "mean" {
        let counts = factory::empty(out.sizes(), DType::Long, out.device())?;
        super::options::fill(&counts, Scalar::Int(i64::from(include)))?;
        let one = factory::scalar_tensor(Scalar::Int(1), DType::Long)?;
        scatter(&counts, dim, index, &super::views::expanded(&one, index.sizes())?, Mode::Add)?;
        let it = crate::iter::TensorIterator::config()
            .output(Some(out))
            .input(out)
            .input(&counts)
            .no_resize()
            .build()?;
        dispatch!("scatter_reduce", out.dtype(), all_complex, T => {
            crate::iter::loops::binary(&it, |x: T, n: i64| x.over(n.max(1)))
        });
    }
    Ok(())
}

fn select_spec(a: Args<'_>) -> Result<Specs> {
    let (t, index) = (a.tensor(0)?, a.tensor(2)?);
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    check!(index.dim() <= 1, Index; "index_select(): Index is supposed to be a vector");
    check!(
        matches!(index.dtype(), DType::Long | DType::Int),
        "index_select(): Expected dtype int32 or int64 for index"
    );
    let mut sizes = IntList::from_slice(t.sizes());
    if t.dim() > 0 {
        sizes[dim] = index.numel();
    } else {
        check!(
            index.numel() == 1,
            "index_select(): Index to scalar can have only 1 value, got {} value(s)",
            index.numel()
        );
    }
    Ok(OutSpec::like(t, sizes).into())
}

fn index_select(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    let resolved = if t.is_conj() || t.is_neg() { contiguous(t)? } else { t.clone() };
    let (t, out) = (at_least_1d(&resolved), at_least_1d(&out[0]));
    let index = index_values(a.tensor(2)?)?;
    let size = t.sizes()[dim];
    check!(index.iter().all(|v| (0..size).contains(v)), Index; "index out of range in self");
    if out.numel() == 0 {
        return Ok(());
    }
    let (inner, strides) = (&t.sizes()[dim + 1..], &t.strides()[dim + 1..]);
    let n: usize = inner.iter().product::<i64>() as usize;
    let before = super::elements::offsets(&t.sizes()[..dim], &t.strides()[..dim]);
    let run = shape::is_contiguous(inner, strides);
    let after = if run { Vec::new() } else { super::elements::offsets(inner, strides) };
    by_size!(t.itemsize(), T => {
        let (src, mut dst) = (t.data_ptr() as *const T, out.data_ptr() as *mut T);
        for b in &before {
            for v in &index {
                // SAFETY: the index is checked; the output is row-major with before × index × inner elements.
                unsafe {
                    let base = src.offset((b + v * t.strides()[dim]) as isize);
                    if run {
                        std::ptr::copy_nonoverlapping(base, dst, n);
                    } else {
                        for (k, o) in after.iter().enumerate() {
                            *dst.add(k) = *base.offset(*o as isize);
                        }
                    }
                    dst = dst.add(n);
                }
            }
        }
    });
    Ok(())
}

fn add_spec(a: Args<'_>) -> Result<Specs> {
    let (t, index, source) = (a.tensor(0)?, a.tensor(2)?, a.tensor(3)?);
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    check!(
        index.dim() <= 1,
        Index;
        "index_add_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {:?}",
        index.dim(),
        index.dtype(),
        index.sizes()
    );
    check!(
        matches!(index.dtype(), DType::Long | DType::Int),
        "index_add_(): Expected dtype int32/int64 for index but got: {}",
        index.dtype()
    );
    check!(
        t.dtype() == source.dtype(),
        "index_add_(): self ({}) and source ({}) must have the same scalar type",
        t.dtype(),
        source.dtype()
    );
    check!(
        source.dim() == 0 || dim < source.dim(),
        "index_add_(): Indexing dim {dim} is out of bounds of the source tensor with dim {}",
        source.dim()
    );
    check!(
        index.numel() == extent(source, dim),
        "index_add_(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {dim}",
        index.numel(),
        extent(source, dim)
    );
    let alike =
        rank(t) == rank(source) && (0..rank(t)).all(|d| d == dim || extent(t, d) == extent(source, d));
    check!(
        alike,
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {:?} \
         source.shape = {:?}",
        t.sizes(),
        source.sizes()
    );
    Ok(OutSpec::like(t, t.sizes()).into())
}

/// A vector index seen as an index of every element of a shape.
fn spread(index: &Tensor, dim: usize, sizes: &[i64]) -> Result<Tensor> {
    let index = contiguous(&convert(index, DType::Long)?)?;
    let mut strides = IntList::from_elem(0, sizes.len());
    strides[dim] = 1;
    Ok(index.alias_with(IntList::from_slice(sizes), strides, index.storage_offset()))
}

fn index_add(a: Args<'_>, out: &Tensor) -> Result<()> {
    let (index, source, alpha) = (a.tensor(2)?, contiguous(a.tensor(3)?)?, a.scalar(4)?);
    let source = at_least_1d(&source);
    let dim = shape::wrap_dim(a.int(1)?, out.dim())?;
    if index.numel() == 0 || source.numel() == 0 {
        return Ok(());
    }
    let index = spread(index, dim, source.sizes())?;
    if alpha.equals_int(1) {
        return scatter(out, dim as i64, &index, &source, Mode::Add);
    }
    dispatch!("index_add", out.dtype(), all_complex, T => {
        let k: T = alpha.to()?;
        walk::<T>(out, dim as i64, &index, &source, |d, v| *d = d.plus(v.times(k)))?
    });
    Ok(())
}

fn copy_spec(a: Args<'_>) -> Result<Specs> {
    let (t, index, source) = (a.tensor(0)?, a.tensor(2)?, a.tensor(3)?);
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    check!(
        index.dim() < 2,
        Index;
        "index_copy_(): Index should have dimension 1 or 0 (got {})",
        index.dim()
    );
    check!(
        source.dim() > 0 || index.numel() == 1,
        Index;
        "index_copy_(): When source is scalar, index should have one element (got {})",
        index.numel()
    );
    check!(
        t.dim() == source.dim() || t.dim() == 0 || source.dim() == 0,
        Index;
        "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality \
         ({}), destination dimensionality ({})",
        source.dim(),
        t.dim()
    );
    check!(
        index.dtype() == DType::Long,
        "index_copy_(): Expected a long tensor for index, but got {}",
        index.dtype()
    );
    check!(
        t.dtype() == source.dtype(),
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        t.dtype(),
        source.dtype()
    );
    let slice =
        |t: &Tensor| -> Vec<i64> { (0..t.dim()).filter(|d| *d != dim).map(|d| t.sizes()[d]).collect() };
    let (x, y) = (slice(t), slice(source));
    let show = |v: &[i64]| v.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(" ");
    check!(
        x == y,
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at dimension {dim} \
         and source slice shape: {} at dimension 0.",
        show(&x),
        show(&y)
    );
    check!(
        source.dim() == 0 || index.numel() == extent(source, dim),
        Index;
        "index_copy_(): Number of indices ({}) should be equal to source.size(dim) ({})",
        index.numel(),
        extent(source, dim)
    );
    Ok(OutSpec::like(t, t.sizes()).into())
}

fn index_copy(a: Args<'_>, out: &Tensor) -> Result<()> {
    let (index, source) = (a.tensor(2)?, at_least_1d(&contiguous(a.tensor(3)?)?));
    let dim = shape::wrap_dim(a.int(1)?, out.dim())?;
    if index.numel() == 0 || source.numel() == 0 {
        return Ok(());
    }
    let size = extent(out, dim);
    if let Some(v) = index_values(index)?.iter().find(|v| !(0..size).contains(*v)) {
        bail!(Index, "index_copy_(): index {v} is out of bounds for dimension {dim} with size {size}");
    }
    scatter(out, dim as i64, &spread(index, dim, source.sizes())?, &source, Mode::Set)
}

fn fill_value(t: &Tensor) -> Result<Scalar> {
    check!(
        t.dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        t.dim()
    );
    if t.is_meta() { Ok(Scalar::Int(0)) } else { item(t) }
}

fn index_fill(t: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    check!(index.dtype() == DType::Long, Index; "index_fill_(): Expected dtype int64 for index.");
    check!(index.dim() <= 1, "Index has to be a vector/scalar");
    check!(
        !value.is_complex() || t.dtype().is_complex(),
        "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    );
    memory::assert_no_internal_overlap(t)?;
    let d = shape::wrap_dim(dim, t.dim())?;
    if t.is_meta() || index.numel() == 0 || t.numel() == 0 {
        return Ok(());
    }
    let size = extent(t, d);
    let mut at = index_values(index)?;
    for v in &mut at {
        check!(
            (-size..size).contains(v),
            Index;
            "index {v} is out of bounds for dimension {d} with size {size}"
        );
        *v += if *v < 0 { size } else { 0 };
    }
    let mut sizes = IntList::from_slice(at_least_1d(t).sizes());
    sizes[d] = at.len() as i64;
    let index = spread(&factory::from_slice(&at)?, d, &sizes)?;
    let one = factory::scalar_tensor(value, t.dtype())?;
    dispatch!("index_fill", t.dtype(), copyable, T => { value.to::<T>()?; });
    scatter(t, d as i64, &index, &super::views::expanded(&one, &sizes)?, Mode::Set)
}

fn long_index(index: &Tensor, name: &str) -> Result<()> {
    check!(
        index.dtype() == DType::Long,
        "{name}(): Expected a long tensor for index, but got {}",
        index.dtype()
    );
    Ok(())
}

fn take_spec(a: Args<'_>) -> Result<Specs> {
    let (t, index) = (a.tensor(0)?, a.tensor(1)?);
    long_index(index, "take")?;
    check!(t.numel() != 0 || index.numel() == 0, Index; "take(): tried to take from an empty tensor");
    Ok(OutSpec::like(t, index.sizes()).into())
}

fn flat_position(v: i64, n: i64) -> Result<i64> {
    check!(
        (-n..n).contains(&v),
        Index;
        "out of range: tried to access index {v} on a tensor of {n} elements."
    );
    Ok(if v < 0 { v + n } else { v })
}

fn take(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = contiguous(a.tensor(0)?)?;
    let index = index_values(a.tensor(1)?)?;
    let n = t.numel();
    by_size!(t.itemsize(), T => {
        let (src, dst) = (t.data_ptr() as *const T, out[0].data_ptr() as *mut T);
        for (k, v) in index.iter().enumerate() {
            let at = flat_position(*v, n)?;
            // SAFETY: checked above; the output has the index's elements.
            unsafe { *dst.add(k) = *src.add(at as usize) };
        }
    });
    Ok(())
}

/// put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!)
fn put_(a: Args<'_>) -> Result<Returns> {
    let (t, index, source, accumulate) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?);
    long_index(index, "put_")?;
    check!(
        t.dtype() == source.dtype(),
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        t.dtype(),
        source.dtype()
    );
    check!(
        source.numel() == index.numel(),
        Index;
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
        source.numel(),
        index.numel()
    );
    check!(
        t.numel() != 0 || index.numel() == 0,
        Index;
        "put_(): Tried to put elements into an empty tensor"
    );
    memory::assert_no_internal_overlap(t)?;
    if t.is_meta() || index.numel() == 0 {
        return Ok(t.into());
    }
    let flat = contiguous(t)?;
    let work = super::views::view(&flat, &[-1])?;
    let n = t.numel();
    let at: Result<Vec<i64>> = index_values(index)?.iter().map(|v| flat_position(*v, n)).collect();
    let source = super::views::view(&contiguous(source)?, &[-1])?;
    let mode = if accumulate { Mode::Add } else { Mode::Set };
    scatter(&work, 0, &factory::from_slice(&at?)?, &source, mode)?;
    if !flat.is_same(t) {
        copy_into(t, &flat)?;
    }
    Ok(t.into())
}

fn take_along_dim(a: Args<'_>) -> Result<Returns> {
    let (t, index) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        index.dtype() == DType::Long,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        index.dtype()
    );
    // Negative positions count from the end.
    let counted = |index: &Tensor, n: i64| -> Result<Tensor> {
        let negative = op::lt_Scalar.call((index, 0))?;
        op::where_self.call((negative, op::add_Scalar.call((index, n))?, index))
    };
    let Some(dim) = a.opt_int(2)? else {
        let flat = op::reshape.call((t, [-1]))?;
        return Ok(op::gather.call((flat, 0, op::reshape.call((index, [-1]))?))?.into());
    };
    check!(
        t.dim() == index.dim(),
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for input, \
         and {} dimensions for indices",
        t.dim(),
        index.dim()
    );
    let d = shape::wrap_dim(dim, t.dim())?;
    let (mut ts, mut is) = (IntList::from_slice(t.sizes()), IntList::from_slice(index.sizes()));
    let (own, other) = (ts[d], is[d]);
    (ts[d], is[d]) = (1, 1);
    let mut common = shape::broadcast(&ts, &is)?;
    common[d] = own;
    let t = op::expand.call((t, common.clone()))?;
    let index = counted(index, own)?;
    common[d] = other;
    Ok(op::gather.call((t, d as i64, op::expand.call((index, common))?))?.into())
}

/// `torch.LongTensor`-like name of a tensor's type, for messages.
fn tensor_type(t: &Tensor) -> String {
    format!("torch.{}Tensor", t.dtype().scalar_type_name())
}

fn check_embedding_index(index: &Tensor, name: &str) -> Result<()> {
    check!(
        matches!(index.dtype(), DType::Long | DType::Int),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {} instead \
         (while checking arguments for {name})",
        tensor_type(index)
    );
    Ok(())
}

/// embedding(Tensor weight, Tensor indices, …) -> Tensor
fn embedding(a: Args<'_>) -> Result<Returns> {
    let (weight, index) = (a.tensor(0)?, a.tensor(1)?);
    check!(weight.dim() == 2, "'weight' must be 2-D");
    check_embedding_index(index, "embedding")?;
    if index.dim() == 1 {
        return Ok(op::index_select.call((weight, 0, index))?.into());
    }
    let mut sizes = IntList::from_slice(index.sizes());
    sizes.push(weight.sizes()[1]);
    let flat = op::index_select.call((weight, 0, op::reshape.call((index, [-1]))?))?;
    Ok(op::view.call((flat, sizes))?.into())
}

/// embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx,
/// bool scale_grad_by_freq) -> Tensor
fn embedding_dense_backward(a: Args<'_>) -> Result<Returns> {
    let (grad, index, rows, padding) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.int(3)?);
    check_embedding_index(index, "embedding_backward")?;
    let width = if grad.dim() == 0 { 1 } else { grad.sizes()[grad.dim() - 1] };
    let out = super::concat::zeros_of(grad, &[rows, width])?;
    if grad.is_meta() || grad.numel() == 0 {
        return Ok(out.into());
    }
    let at = index_values(index)?;
    let mut counts = vec![0i64; rows as usize];
    for v in &at {
        check!((0..rows).contains(v), Index; "index out of range in self");
        counts[*v as usize] += 1;
    }
    let grad = contiguous(grad)?;
    let w = width as usize;
    // SAFETY: both are contiguous and of the matched type.
    dispatch!("embedding_backward", grad.dtype(), floating, T => unsafe {
        let (dst, src) = (out.as_mut_slice::<T>(), grad.as_slice::<T>());
        for (k, v) in at.iter().enumerate().filter(|(_, v)| **v != padding) {
            let v = *v as usize;
            let divisor = if a.bool(4)? { counts[v] } else { 1 };
            for (d, s) in dst[v * w..(v + 1) * w].iter_mut().zip(&src[k * w..(k + 1) * w]) {
                *d = d.plus(if divisor == 1 { *s } else { s.over(divisor) });
            }
        }
    });
    Ok(out.into())
}
