//! Pooling in one to three dimensions: greatest elements, means, and both of them adaptive.

use crate::cpu::pool::{Divisor, Window, Windows, greatest, mean};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, Error, MemoryFormat, OpId, Result, Stack, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::max_pool2d_with_indices, |a| max_meta(a, 2), |a, o| max(a, 2, o))
        .structured(op::max_pool3d_with_indices, |a| max_meta(a, 3), |a, o| max(a, 3, o))
        .structured(op::avg_pool2d, |a| avg_meta(a, 2), |a, o| avg(a, 2, o))
        .structured(op::avg_pool3d, |a| avg_meta(a, 3), |a, o| avg(a, 3, o))
        .structured(op::_adaptive_avg_pool2d, |a| adaptive_avg_meta(a, 2), |a, o| adaptive_avg(a, 2, o))
        .structured(op::_adaptive_avg_pool3d, |a| adaptive_avg_meta(a, 3), |a, o| adaptive_avg(a, 3, o))
        .structured(op::adaptive_max_pool2d, |a| adaptive_max_meta(a, 2), |a, o| adaptive_max(a, 2, o))
        .structured(op::adaptive_max_pool3d, |a| adaptive_max_meta(a, 3), |a, o| adaptive_max(a, 3, o))
        .implicit(op::max_pool2d, |a| first(op::max_pool2d_with_indices, a))
        .implicit(op::max_pool3d, |a| first(op::max_pool3d_with_indices, a))
        .implicit(op::max_pool1d, max_pool1d)
        .implicit(op::max_pool1d_with_indices, |a| {
            check_rank1(a.tensor(0)?, "max_pool1d")?;
            line(op::max_pool2d_with_indices, a, &[(1, 1), (2, 1), (3, 0), (4, 1)])
        })
        .implicit(op::avg_pool1d, |a| {
            check_rank1(a.tensor(0)?, "avg_pool1d")?;
            line(op::avg_pool2d, a, &[(1, 1), (2, 1), (3, 0)])
        })
        .implicit(op::adaptive_avg_pool1d, |a| {
            let t = a.tensor(0)?;
            check!(
                t.dim() == 2 || t.dim() == 3,
                "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for \
                 adaptive_avg_pool1d)",
                t.dim()
            );
            line(op::adaptive_avg_pool2d, a, &[(1, 1)])
        })
        .implicit(op::adaptive_max_pool1d, adaptive_max_pool1d)
        .implicit(op::adaptive_avg_pool2d, |a| adaptive_mean(a, 2))
        .implicit(op::adaptive_avg_pool3d, |a| adaptive_mean(a, 3));
}

/// The first result of an operator with the same arguments.
fn first(id: OpId, a: Args<'_>) -> Result<Returns> {
    Ok(id.call(Stack::from_iter(a.0.iter().cloned()))?.into())
}

fn check_rank1(t: &Tensor, name: &str) -> Result<()> {
    check!(
        t.dim() == 2 || t.dim() == 3,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for {name})",
        t.dim()
    );
    Ok(())
}

/// Pooling in two dimensions of an input with a height of one. `lists` names arguments that gain a leading number.
fn line(id: OpId, a: Args<'_>, lists: &[(usize, i64)]) -> Result<Returns> {
    let mut stack = Stack::from_iter(a.0.iter().cloned());
    stack[0] = op::unsqueeze.call((a.tensor(0)?, -2))?.into();
    for &(i, lead) in lists {
        let list = a.opt_int_list(i)?.unwrap_or(&[]);
        if !list.is_empty() {
            let mut wide = IntList::from_elem(lead, 1);
            wide.extend_from_slice(list);
            stack[i] = wide.into();
        }
    }
    let out = id.call_all(stack)?;
    let mut results = Returns::default();
    for v in out {
        results.0.push(op::squeeze_dim.call((v.tensor()?, -2))?.into());
    }
    Ok(results)
}

/// max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False)
fn max_pool1d(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        t.dim() == 2 || t.dim() == 3,
        "max_pool1d() Expected 2D or 3D input tensor, but got {:?}",
        t.sizes()
    );
    for (i, name) in [(1, "kernel_size"), (2, "stride"), (3, "padding"), (4, "dilation")] {
        let n = a.opt_int_list(i)?.unwrap_or(&[]).len();
        check!(
            n == 1 || (i == 2 && n == 0),
            "max_pool1d() {name} must be an int, list of ints or tuple of ints of size 1 but got size {n}"
        );
    }
    let k = a.int_list(1)?[0];
    let s = a.opt_int_list(2)?.unwrap_or(&[]).first().copied().unwrap_or(k);
    let (p, d) = (a.int_list(3)?[0], a.int_list(4)?[0]);
    check!(k > 0, "max_pool1d() kernel_size must be greater than zero, but got {k}");
    check!(s > 0, "max_pool1d() stride must be greater than zero, but got {s}");
    check!(p >= 0, "max_pool1d() padding must be non-negative, but got {p}");
    check!(
        p <= k / 2,
        "max_pool1d() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}"
    );
    check!(d > 0, "max_pool1d() dilation must be greater than zero, but got {d}");
    let size = t.sizes()[t.dim() - 1];
    let n = pooled(size, k, p, s, d, a.bool(5)?);
    check!(n > 0, "max_pool1d() Invalid computed output size: {n}");
    if t.is_cpu() && !t.dtype().is_floating_point() {
        return Err(Error::dtype_not_implemented("max_pool1d_impl", t.dtype()));
    }
    first(op::max_pool1d_with_indices, a)
}

/// One number for each of `rank` dimensions, from one or all of them.
fn spread(list: &[i64], rank: usize, message: impl Fn() -> String) -> Result<IntList> {
    match list.len() {
        1 => Ok(IntList::from_elem(list[0], rank)),
        n if n == rank => Ok(list.into()),
        _ => bail!(Runtime, "{}", message()),
    }
}

/// Kernel size, stride, padding and dilation.
pub(super) struct Shape {
    kernel: IntList,
    stride: IntList,
    padding: IntList,
    dilation: IntList,
    ceil: bool,
}

const COUNT: [&str; 4] = ["", "int", "two ints", "three ints"];

impl Shape {
    pub(super) fn read(
        a: Args<'_>,
        name: &str,
        rank: usize,
        dilation: Option<usize>,
        ceil: usize,
    ) -> Result<Shape> {
        let n = COUNT[rank];
        let kernel = spread(a.int_list(1)?, rank, || {
            format!("{name}: kernel_size must either be a single int, or a tuple of {n}")
        })?;
        let stride = match a.opt_int_list(2)?.unwrap_or(&[]) {
            [] => kernel.clone(),
            s => spread(s, rank, || {
                format!("{name}: stride must either be omitted, a single int, or a tuple of {n}")
            })?,
        };
        let padding = spread(a.int_list(3)?, rank, || {
            format!("{name}: padding must either be a single int, or a tuple of {n}")
        })?;
        let dilation = match dilation {
            None => IntList::from_elem(1, rank),
            Some(i) => spread(a.int_list(i)?, rank, || {
                format!("{name}: dilation must be either a single int, or a tuple of {n}")
            })?,
        };
        Ok(Shape { kernel, stride, padding, dilation, ceil: a.bool(ceil)? })
    }

    /// The sizes after pooling, checked.
    pub(super) fn out_sizes(&self, t: &Tensor, rank: usize) -> Result<IntList> {
        let s = t.sizes();
        let lead = t.dim().saturating_sub(rank);
        let mut sizes = IntList::from_slice(&s[..lead]);
        for d in 0..rank {
            let (k, st, p, dil) = (self.kernel[d], self.stride[d], self.padding[d], self.dilation[d]);
            check!(st != 0, "stride should not be zero");
            check!(p >= 0, "pad must be non-negative, but got pad: {p}");
            check!(
                p <= ((k - 1) * dil + 1) / 2,
                "pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={dil}"
            );
            sizes.push(pooled(s[lead + d], k, p, st, dil, self.ceil));
        }
        let names = &["T", "H", "W"][3 - rank..];
        let text = |prefix: &str, v: &[i64]| {
            names.iter().zip(v).map(|(n, v)| format!("{prefix}{n}: {v}")).collect::<Vec<_>>().join(" ")
        };
        check!(
            self.kernel.iter().all(|k| *k > 0),
            "kernel size should be greater than zero, but got {}",
            text("k", &self.kernel)
        );
        check!(
            self.stride.iter().all(|k| *k > 0),
            "stride should be greater than zero, but got {}",
            text("d", &self.stride)
        );
        check!(
            self.dilation.iter().all(|k| *k > 0),
            "dilation should be greater than zero, but got {}",
            text("dilation", &self.dilation)
        );
        check!(
            (lead == 1 || lead == 2) && s[lead - 1..].iter().all(|n| *n != 0),
            "Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got:{s:?}",
            rank + 1,
            rank + 2
        );
        let by = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
        check!(
            sizes[lead..].iter().all(|n| *n >= 1),
            "Given input size: ({}). Calculated output size: ({}). Output size is too small",
            by(&s[lead - 1..]),
            by(&sizes[lead - 1..])
        );
        Ok(sizes)
    }

    pub(super) fn windows(&self, t: &Tensor, out: &[i64], rank: usize) -> Windows {
        let mut w: Windows = std::array::from_fn(|_| vec![Window { first: 0, end: 1, step: 1, padded: 1 }]);
        for d in 0..rank {
            let size = t.sizes()[t.dim() - rank + d];
            let (k, st, p, dil) = (self.kernel[d], self.stride[d], self.padding[d], self.dilation[d]);
            w[3 - rank + d] = (0..out[out.len() - rank + d])
                .map(|o| {
                    let start = o * st - p;
                    let end = start + (k - 1) * dil + 1;
                    // Positions before the input are stepped over.
                    let first = if start < 0 { start + (-start + dil - 1) / dil * dil } else { start };
                    Window { first, end: end.min(size), step: dil, padded: end.min(size + p) - start }
                })
                .collect();
        }
        w
    }
}

/// The size after pooling one dimension.
fn pooled(size: i64, k: i64, p: i64, s: i64, dil: i64, ceil: bool) -> i64 {
    let span = size + 2 * p - dil * (k - 1) - 1 + if ceil { s - 1 } else { 0 };
    let n = span.div_euclid(s) + 1;
    // The last window starts inside the input or its left padding.
    if ceil && (n - 1) * s >= size + p { n - 1 } else { n }
}

/// Results keep their channels last where the input has them so.
fn like(t: &Tensor, sizes: IntList, dtype: DType, rank: usize) -> Result<OutSpec> {
    let spec = OutSpec::new(sizes.clone(), dtype, t.device());
    Ok(match t.suggest_memory_format() {
        MemoryFormat::Contiguous => spec,
        _ if t.dim() != rank + 2 => spec,
        f => spec.strides(shape::strides_for(&sizes, f)?),
    })
}

fn max_name(rank: usize) -> &'static str {
    if rank == 2 { "max_pool2d" } else { "max_pool3d" }
}

fn max_meta(a: Args<'_>, rank: usize) -> Result<Specs> {
    let t = a.tensor(0)?;
    let p = Shape::read(a, max_name(rank), rank, Some(4), 5)?;
    check!(
        t.dim() == rank + 1 || t.dim() == rank + 2,
        "non-empty {}D or {}D (batch mode) tensor expected for input",
        rank + 1,
        rank + 2
    );
    let sizes = p.out_sizes(t, rank)?;
    Ok(Specs::from_iter([like(t, sizes.clone(), t.dtype(), rank)?, like(t, sizes, DType::Long, rank)?]))
}

fn max(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let p = Shape::read(a, max_name(rank), rank, Some(4), 5)?;
    let w = p.windows(a.tensor(0)?, out[0].sizes(), rank);
    max_of(a.tensor(0)?, max_name(rank), rank, &w, out)
}

/// The value below all others of a type.
trait Lowest {
    const LOW: Self;
}
macro_rules! lowest { ($($t:ty: $v:expr),*) => {$(impl Lowest for $t { const LOW: $t = $v; })*}; }
lowest!(f32: f32::NEG_INFINITY, f64: f64::NEG_INFINITY, half::f16: half::f16::NEG_INFINITY,
    half::bf16: half::bf16::NEG_INFINITY, u8: 0, i8: i8::MIN, i16: i16::MIN, i32: i32::MIN, i64: i64::MIN);

fn max_of(t: &Tensor, name: &str, rank: usize, w: &Windows, out: &[Tensor]) -> Result<()> {
    dispatch!(name, t.dtype(), all, T => greatest::<T>(t, rank, w, <T as Lowest>::LOW, &out[0], out.get(1)));
    Ok(())
}

fn avg_meta(a: Args<'_>, rank: usize) -> Result<Specs> {
    let t = a.tensor(0)?;
    let p = Shape::read(a, avg_name(rank), rank, None, 4)?;
    check!(a.opt_int(6)? != Some(0), "divisor must be not zero");
    if rank == 2 {
        shape::wrap_dim(-3, t.dim())?;
    } else {
        check!(t.dim() == 4 || t.dim() == 5, "non-empty 4D or 5D (batch mode) tensor expected for input");
    }
    let sizes = p.out_sizes(t, rank)?;
    if rank == 3 {
        // Upstream's kernel in three dimensions knows no other layout.
        return Ok(OutSpec::like(t, sizes).into());
    }
    Ok(like(t, sizes, t.dtype(), rank)?.into())
}

fn avg_name(rank: usize) -> &'static str {
    if rank == 2 { "avg_pool2d" } else { "avg_pool3d" }
}

fn avg(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let p = Shape::read(a, avg_name(rank), rank, None, 4)?;
    let w = p.windows(t, out[0].sizes(), rank);
    let divisor = match a.opt_int(6)? {
        Some(n) => Divisor::Fixed(n),
        None if a.bool(5)? => Divisor::Padded,
        None => Divisor::Present,
    };
    let x = super::blas::resolved(t)?;
    match t.dtype() {
        DType::Float => mean::<f32>(&x, rank, &w, divisor, &out[0]),
        DType::Double => mean::<f64>(&x, rank, &w, divisor, &out[0]),
        DType::Long => mean::<i64>(&x, rank, &w, divisor, &out[0]),
        DType::Half if rank == 2 => mean::<half::f16>(&x, rank, &w, divisor, &out[0]),
        DType::BFloat16 if rank == 2 => mean::<half::bf16>(&x, rank, &w, divisor, &out[0]),
        other => {
            let name = if rank == 2 { "avg_pool2d" } else { "avg_pool3d_out_frame" };
            return Err(Error::dtype_not_implemented(name, other));
        }
    }
    Ok(())
}

/// Windows that together cover the input.
pub(super) fn adaptive_windows(t: &Tensor, out: &[i64], rank: usize) -> Windows {
    let mut w: Windows = std::array::from_fn(|_| vec![Window { first: 0, end: 1, step: 1, padded: 1 }]);
    for d in 0..rank {
        let (size, n) = (t.sizes()[t.dim() - rank + d], out[d]);
        w[3 - rank + d] = (0..n)
            .map(|o| {
                let (first, end) = (o * size / n, ((o + 1) * size + n - 1) / n);
                Window { first, end, step: 1, padded: end - first }
            })
            .collect();
    }
    w
}

/// Refuses empty dimensions among the last `n`.
fn check_not_empty(t: &Tensor, name: &str, n: usize) -> Result<()> {
    let from = t.dim().saturating_sub(n);
    for d in from..t.dim() {
        check!(
            t.sizes()[d] > 0,
            "{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {:?} with dimension {d} \
             being empty",
            t.sizes()
        );
    }
    Ok(())
}

fn adaptive_sizes(t: &Tensor, out: &[i64], rank: usize) -> Result<IntList> {
    let mut sizes = IntList::from_slice(&t.sizes()[..t.dim() - rank]);
    sizes.extend_from_slice(out);
    if let Some(n) = out.iter().find(|n| **n < 0) {
        bail!(Runtime, "Trying to create tensor with negative dimension {n}: {:?}", &sizes[..]);
    }
    Ok(sizes)
}

fn adaptive_avg_meta(a: Args<'_>, rank: usize) -> Result<Specs> {
    let (t, out) = (a.tensor(0)?, a.int_list(1)?);
    let name = if rank == 2 { "adaptive_avg_pool2d" } else { "adaptive_avg_pool3d" };
    check!(out.len() == rank, "{name}: output_size must be {rank}");
    check!(
        t.dim() == rank + 1 || t.dim() == rank + 2,
        "{name}(): Expected {}D or {}D tensor, but got {:?}",
        rank + 1,
        rank + 2,
        t.sizes()
    );
    check_not_empty(t, name, if rank == 2 { 2 } else { 4 })?;
    let sizes = adaptive_sizes(t, out, rank)?;
    if rank == 3 {
        return Ok(OutSpec::like(t, sizes).into());
    }
    Ok(like(t, sizes, t.dtype(), rank)?.into())
}

fn adaptive_avg(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let w = adaptive_windows(t, a.int_list(1)?, rank);
    let name = if rank == 2 { "adaptive_avg_pool2d" } else { "adaptive_avg_pool3d_cpu" };
    dispatch!(name, t.dtype(), floating, T => mean::<T>(t, rank, &w, Divisor::EachDimension, &out[0]));
    Ok(())
}

/// adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor, and in three dimensions
fn adaptive_mean(a: Args<'_>, rank: usize) -> Result<Returns> {
    let (t, out) = (a.tensor(0)?, a.int_list(1)?);
    let name = if rank == 2 { "adaptive_avg_pool2d" } else { "adaptive_avg_pool3d" };
    check!(out.len() == rank, "{name}: output_size must be {rank}");
    check!(
        out.iter().all(|n| *n >= 0),
        "{name}: elements of output_size must be greater than or equal to 0 but received {{{}}}",
        if rank == 2 {
            format!("{}, {}", out[0], out[1])
        } else {
            format!("{}, {},{}", out[0], out[1], out[2])
        }
    );
    if out.iter().any(|n| *n != 1) {
        let id = if rank == 2 { op::_adaptive_avg_pool2d } else { op::_adaptive_avg_pool3d };
        return Ok(id.call((t, out))?.into());
    }
    let dims: IntList = (1..=rank as i64).map(|d| -d).collect();
    let mean = op::mean_dim.call((t, dims, true))?;
    let format = if rank == 2 { MemoryFormat::ChannelsLast } else { MemoryFormat::ChannelsLast3d };
    if t.dim() != rank + 2 || t.suggest_memory_format() != format {
        return Ok(mean.into());
    }
    let (n, c) = (mean.sizes()[0], mean.sizes()[1]);
    let (mut sizes, mut strides) = (IntList::from_slice(&[n, c]), IntList::from_slice(&[c, 1]));
    sizes.extend(std::iter::repeat_n(1, rank));
    strides.extend(std::iter::repeat_n(c, rank));
    Ok(op::as_strided.call((mean, sizes, strides))?.into())
}

fn adaptive_max_meta(a: Args<'_>, rank: usize) -> Result<Specs> {
    let (t, out) = (a.tensor(0)?, a.int_list(1)?);
    let name = if rank == 2 { "adaptive_max_pool2d" } else { "adaptive_max_pool3d" };
    check!(
        t.dim() == rank + 1 || t.dim() == rank + 2,
        "{name}(): Expected {}D or {}D tensor, but got: {:?}",
        rank + 1,
        rank + 2,
        t.sizes()
    );
    check_not_empty(t, name, rank + 1)?;
    check!(out.len() == rank, "{name}(): internal error: output_size.size() must be {rank}");
    let sizes = adaptive_sizes(t, out, rank)?;
    if rank == 3 {
        return Ok(Specs::from_iter([
            OutSpec::like(t, sizes.clone()),
            OutSpec::new(sizes, DType::Long, t.device()),
        ]));
    }
    Ok(Specs::from_iter([like(t, sizes.clone(), t.dtype(), rank)?, like(t, sizes, DType::Long, rank)?]))
}

fn adaptive_max(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let name = if rank == 2 { "adaptive_max_pool2d" } else { "adaptive_max_pool3d_cpu" };
    if !t.dtype().is_floating_point() {
        return Err(Error::dtype_not_implemented(name, t.dtype()));
    }
    max_of(t, name, rank, &adaptive_windows(t, a.int_list(1)?, rank), out)
}

fn adaptive_max_pool1d(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        t.dim() == 2 || t.dim() == 3,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for \
         adaptive_max_pool1d)",
        t.dim()
    );
    check!(
        a.int_list(1)?.len() == 1,
        "Expected output_size to have one element (while checking arguments for adaptive_max_pool1d)"
    );
    line(op::adaptive_max_pool2d, a, &[(1, 1)])
}
