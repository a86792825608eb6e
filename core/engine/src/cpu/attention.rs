//! The fused attention kernel, on tensors.

use crate::{DType, Element, Tensor};
use torchnative_kernels::attention::{Attention, Mask, View, attention as run};
use torchnative_kernels::elem::{Elem, Float};
use torchnative_kernels::vmath::Math;

/// The address and the strides of a four-dimensional tensor.
fn view<T>(t: &Tensor) -> View<T> {
    View { ptr: t.data_ptr() as *const T, strides: [0, 1, 2, 3].map(|d| t.strides()[d] as isize) }
}

/// Attention of queries (batch, heads, rows, width) over keys and values (batch, key heads, keys, width), written to `out` with
/// the logarithm of each row's sum of exponentials in `sums` (batch, heads, rows). The mask has the shape of the scores and
/// the dtype of the queries or of the accumulator.
pub(crate) fn attention<T: Element + Elem>(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
    causal: bool,
    out: &Tensor,
    sums: &Tensor,
) where
    T::Acc: Math,
{
    let size = |t: &Tensor, d: usize| t.sizes()[d] as usize;
    if out.numel() == 0 {
        return;
    }
    let mask = match mask {
        None => Mask::None,
        Some(m) if m.dtype() == <T as Element>::DTYPE => Mask::Additive(view(m)),
        Some(m) => {
            debug_assert!(m.dtype() == DType::Float);
            Mask::Wide(view(m))
        }
    };
    let args = Attention::<T> {
        batch: size(q, 0),
        heads: size(q, 1),
        kv_heads: size(k, 1),
        rows: size(q, 2),
        keys: size(k, 2),
        width: size(q, 3),
        value_width: size(v, 3),
        scale: T::Acc::from_f64(scale),
        causal,
        q: view(q),
        k: view(k),
        v: view(v),
        mask,
        out: out.data_ptr() as *mut T,
        out_strides: [0, 1, 2, 3].map(|d| out.strides()[d] as isize),
        logsumexp: sums.data_ptr() as *mut T::Acc,
        logsumexp_strides: [0, 1, 2].map(|d| sums.strides()[d] as isize),
    };
    // SAFETY: the shape function checked that the tensors fit one another; `out` and `sums` are fresh.
    unsafe { run(&args) };
}
