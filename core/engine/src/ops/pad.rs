//! Padding: constant, reflected, replicated, circular.

use super::options::fill;
use super::views;
use crate::cpu::gather::gather;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::ops::copy::{contiguous, copy_into};
use crate::tensor::{factory, shape};
use crate::{MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::constant_pad_nd, constant)
        .implicit(op::pad, |a| Ok(pad(a.tensor(0)?, a.int_list(1)?, a.str(2)?, a.opt_double(3)?)?.into()))
        .implicit(op::_pad_enum, |a| {
            let mode = match a.int(2)? {
                0 => "reflect",
                1 => "replicate",
                2 => "circular",
                3 => "constant",
                n => bail!(Runtime, "Unrecognised padding mode {n}"),
            };
            Ok(pad(a.tensor(0)?, a.int_list(1)?, mode, a.opt_double(3)?)?.into())
        })
        .implicit(op::_pad_circular, |a| Ok(circular(a.tensor(0)?, a.int_list(1)?)?.into()));
    macro_rules! gradients {
        ($($id:ident, $rank:literal, $reflect:literal;)*) => {$(
            r.explicit(op::$id, |a| Ok(backward(a, $rank, $reflect)?.into()));
        )*};
    }
    gradients! {
        reflection_pad1d_backward, 1, true;
        reflection_pad2d_backward, 2, true;
        reflection_pad3d_backward, 3, true;
        replication_pad1d_backward, 1, false;
        replication_pad2d_backward, 2, false;
        replication_pad3d_backward, 3, false;
    }
    r.structured(op::reflection_pad1d, |a| meta(a, 1, true), |a, o| run(a, "reflection_pad1d", true, o))
        .structured(op::reflection_pad2d, |a| meta(a, 2, true), |a, o| run(a, "reflection_pad2d", true, o))
        .structured(op::reflection_pad3d, |a| meta(a, 3, true), |a, o| run(a, "reflection_pad3d", true, o))
        .structured(
            op::replication_pad1d,
            |a| meta(a, 1, false),
            |a, o| run(a, "replication_pad1d", false, o),
        )
        .structured(
            op::replication_pad2d,
            |a| meta(a, 2, false),
            |a, o| run(a, "replication_pad2d", false, o),
        )
        .structured(
            op::replication_pad3d,
            |a| meta(a, 3, false),
            |a, o| run(a, "replication_pad3d", false, o),
        );
}

/// constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor
fn constant(a: Args<'_>) -> Result<Returns> {
    let (t, pad) = (a.tensor(0)?, a.int_list(1)?);
    check!(pad.len().is_multiple_of(2), "Length of pad must be even but instead it equals {}", pad.len());
    check!(
        pad.len() <= 2 * t.dim(),
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {}while the input has \
         {}dimensions.",
        pad.len(),
        t.dim()
    );
    let mut sizes = IntList::from_slice(t.sizes());
    let mut source = views::same(t);
    for (i, p) in pad.chunks(2).enumerate() {
        let d = t.dim() - 1 - i;
        // Negative padding cuts the source.
        let (begin, end) = ((-p[0]).max(0), t.sizes()[d] - (-p[1]).max(0));
        check!(end >= begin, "narrow(): length must be non-negative.");
        sizes[d] = t.sizes()[d] + p[0] + p[1];
        check!(
            sizes[d] >= 0,
            "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid. Check \
             dimension {d} of your input.",
            t.sizes()[d],
            p[0],
            p[1]
        );
        source = views::slice(&source, d as i64, Some(begin), Some(end), 1)?;
    }
    let format = t.suggest_memory_format();
    let out = factory::empty_format(&sizes, t.dtype(), t.device(), format)?;
    fill(&out, a.scalar(2)?)?;
    let mut inner = views::same(&out);
    for (i, p) in pad.chunks(2).enumerate() {
        let d = t.dim() - 1 - i;
        let begin = p[0].max(0);
        inner = views::slice(&inner, d as i64, Some(begin), Some(begin + source.sizes()[d]), 1)?;
    }
    copy_into(&inner, &source)?;
    Ok(out.into())
}

fn pad(t: &Tensor, pad: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    check!(pad.len().is_multiple_of(2), "Padding length must be divisible by 2");
    check!(
        pad.len() <= 2 * t.dim(),
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of \
         dimension {}",
        pad.len(),
        t.dim()
    );
    if mode == "constant" {
        return op::constant_pad_nd.call((t, pad, Scalar::Float(value.unwrap_or(0.0))));
    }
    check!(value.is_none_or(|v| v == 0.0), "Padding mode \"{mode}\" doesn't take in value argument");
    let rank = pad.len() / 2;
    let fits = (1..=3).contains(&rank) && (t.dim() == rank + 1 || t.dim() == rank + 2);
    let id = match (mode, rank) {
        ("reflect" | "replicate" | "circular", _) if !fits => bail!(
            NotImplemented,
            "Padding size {} is not supported for {}D input tensor.\nSupported combinations for non-constant padding:\n  - 2D or \
             3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  - \
             4D or 5D input: padding size = 6 (pads last 3 dimensions)",
            pad.len(),
            t.dim()
        ),
        ("reflect", 1) => op::reflection_pad1d,
        ("reflect", 2) => op::reflection_pad2d,
        ("reflect", _) => op::reflection_pad3d,
        ("replicate", 1) => op::replication_pad1d,
        ("replicate", 2) => op::replication_pad2d,
        ("replicate", _) => op::replication_pad3d,
        ("circular", _) => op::_pad_circular,
        (other, _) => bail!(NotImplemented, "Unrecognised padding mode {other}"),
    };
    id.call((t, pad))
}

/// Pads the last dimensions with their own other end.
fn circular(t: &Tensor, pad: &[i64]) -> Result<Tensor> {
    check!(
        pad.len().is_multiple_of(2) && pad.len() / 2 + 2 >= t.dim() && pad.len() / 2 < t.dim(),
        "Invalid padding size, expected {} but got {}",
        2 * t.dim().saturating_sub(2),
        pad.len()
    );
    for (i, p) in pad.chunks(2).enumerate() {
        let size = t.sizes()[t.dim() - 1 - i];
        check!(p[0] <= size && p[1] <= size, "Padding value causes wrapping around more than once.");
        check!(size + p[0] + p[1] >= 0, "Negative padding value is resulting in an empty dimension");
    }
    let mut out = t.clone();
    for (i, p) in pad.chunks(2).enumerate() {
        let d = (t.dim() - 1 - i) as i64;
        let size = t.sizes()[d as usize];
        let part = |from: i64, to: i64| op::slice_Tensor.call((&out, d, from, to));
        let mut parts = Vec::new();
        if p[0] > 0 {
            parts.push(part(size - p[0], size)?);
        }
        parts.push(part((-p[0]).max(0), size - (-p[1]).max(0))?);
        if p[1] > 0 {
            parts.push(part(0, p[1])?);
        }
        out = op::cat.call((parts, d))?;
    }
    op::contiguous.call((out, MemoryFormat::Contiguous))
}

const NAMES: [&str; 3] = ["D", "H", "W"];

/// The shape of a reflected or replicated border of `rank` dimensions.
fn meta(a: Args<'_>, rank: usize, reflect: bool) -> Result<Specs> {
    let (t, pad) = (a.tensor(0)?, a.int_list(1)?);
    check!(pad.len() == 2 * rank, "padding size is expected to be {}, but got: {}", 2 * rank, pad.len());
    let s = t.sizes();
    // Only the batch may be empty.
    let batched = t.dim() == rank + 2;
    check!(
        (batched || t.dim() == rank + 1) && s[usize::from(batched)..].iter().all(|n| *n != 0),
        "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {s:?}",
        rank + 1,
        rank + 2
    );
    let mut sizes = IntList::from_slice(s);
    for (i, p) in pad.chunks(2).enumerate() {
        let d = t.dim() - 1 - i;
        check!(
            !reflect || (p[0] < s[d] && p[1] < s[d]),
            "Argument #{}: Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) at \
             dimension {d} of input {s:?}",
            2 * i + 4,
            p[0],
            p[1]
        );
        sizes[d] += p[0] + p[1];
    }
    let (first, out) = (t.dim() - rank, &sizes[t.dim() - rank..]);
    if rank == 1 {
        check!(out[0] >= 1, "input (W: {}) is too small. Calculated output W: {}", s[first], out[0]);
    } else {
        let text = |v: &[i64]| {
            let names = &NAMES[3 - rank..];
            names.iter().zip(v).map(|(n, v)| format!("{n}: {v}")).collect::<Vec<_>>()
        };
        // Three dimensions pass when one of them is left.
        let fine = if rank == 2 { out.iter().all(|n| *n >= 1) } else { out.iter().any(|n| *n >= 1) };
        check!(
            fine,
            "Calculated output {} must be >= 1 in every dimension (input {})",
            text(out).join(" "),
            text(&s[first..]).join(", ")
        );
    }
    let spec = OutSpec::like(t, sizes.clone());
    Ok(match t.suggest_memory_format() {
        MemoryFormat::Contiguous => spec,
        _ if rank == 1 || t.is_meta() && t.dim() < 4 => spec,
        f => spec.strides(shape::strides_for(&sizes, f)?),
    }
    .into())
}

fn run(a: Args<'_>, name: &str, reflect: bool, out: &[Tensor]) -> Result<()> {
    let (t, pad) = (a.tensor(0)?, a.int_list(1)?);
    if t.dtype() == crate::DType::Bool {
        return Err(crate::Error::dtype_not_implemented(name, t.dtype()));
    }
    let t = if t.is_conj() || t.is_neg() { contiguous(t)? } else { t.clone() };
    let tables: Vec<Vec<i64>> =
        (0..t.dim()).map(|d| sources(&t, d, pad, reflect, out[0].sizes()[d])).collect();
    gather(&t, &tables, &out[0])
}

/// The position of dimension `d` that each of `n` padded positions shows.
fn sources(t: &Tensor, d: usize, pad: &[i64], reflect: bool, n: i64) -> Vec<i64> {
    let (size, from_end) = (t.sizes()[d], t.dim() - 1 - d);
    let before = pad.get(2 * from_end).copied().unwrap_or(0);
    (0..n)
        .map(|i| {
            let i = i - before;
            if reflect && i < 0 {
                -i
            } else if reflect && i >= size {
                2 * (size - 1) - i
            } else {
                i.clamp(0, size - 1)
            }
        })
        .collect()
}

/// (grad_output, self, padding): each gradient goes where its value came from.
fn backward(a: Args<'_>, rank: usize, reflect: bool) -> Result<Tensor> {
    let (grad, t, pad) = (a.tensor(0)?, a.tensor(1)?, a.int_list(2)?);
    let expected = &meta(Args(&a.0[1..]), rank, reflect)?[0];
    check!(
        grad.sizes() == &expected.sizes[..],
        "Expected a gradient of shape {:?}, but got {:?}",
        &expected.sizes[..],
        grad.sizes()
    );
    let mut out = grad.clone();
    for d in t.dim() - rank..t.dim() {
        let index = factory::from_slice(&sources(t, d, pad, reflect, grad.sizes()[d]))?;
        let index = super::options::deliver(index, grad.device())?;
        let mut sizes = IntList::from_slice(out.sizes());
        sizes[d] = t.sizes()[d];
        let zeros = op::zeros.call((sizes, grad.dtype(), (), grad.device()))?;
        out = op::index_add.call((zeros, d, index, out))?;
    }
    Ok(out)
}
