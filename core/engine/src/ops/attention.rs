//! `scaled_dot_product_attention`: the choice between the fused kernel and separate operators, and both of them.

use crate::cpu::attention as kernel;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::ops::{copy, views};
use crate::tensor::{factory, shape};
use crate::{DType, Result, Scalar, Tensor, bail, check, dispatch, op, settings};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::scaled_dot_product_attention, attention)
        .implicit(op::_scaled_dot_product_attention_math, math)
        .cpu(op::_fused_sdp_choice, |a| Ok((choice(&Inputs::read(a)?) as i64).into()))
        // Fused kernels are a matter of a device that computes.
        .meta(op::_fused_sdp_choice, |_| Ok((Choice::Math as i64).into()))
        .structured(op::_scaled_dot_product_flash_attention_for_cpu, fused_meta, fused)
        .cpu(op::_scaled_dot_product_flash_attention_for_cpu_backward, fused_backward)
        .meta(op::_scaled_dot_product_flash_attention_for_cpu_backward, fused_backward_meta);
}

/// How attention is computed; the numbers are upstream's `SDPBackend`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Error = -1,
    Math = 0,
    Flash = 1,
}

/// The arguments that `scaled_dot_product_attention` and `_fused_sdp_choice` share.
struct Inputs<'a> {
    q: &'a Tensor,
    k: &'a Tensor,
    v: &'a Tensor,
    mask: Option<&'a Tensor>,
    dropout: f64,
    causal: bool,
    scale: Option<f64>,
    grouped: bool,
}

impl<'a> Inputs<'a> {
    fn read(a: Args<'a>) -> Result<Inputs<'a>> {
        Ok(Inputs {
            q: a.tensor(0)?,
            k: a.tensor(1)?,
            v: a.tensor(2)?,
            mask: a.opt_tensor(3),
            dropout: a.double(4)?,
            causal: a.bool(5)?,
            scale: a.opt_double(6)?,
            grouped: a.bool(7)?,
        })
    }

    fn check(&self) -> Result<()> {
        let (q, k, v) = (self.q, self.k, self.v);
        let name = |t: &Tensor| t.dtype().torch_name_cpp();
        check!(
            q.dtype() == k.dtype() && q.dtype() == v.dtype(),
            "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} \
             instead.",
            name(q),
            name(k),
            name(v)
        );
        check!(
            q.device() == k.device() && q.device() == v.device(),
            "Expected query, key, and value to have the same device type, but got query.device: {} key.device: {} and \
             value.device: {} instead.",
            q.device(),
            k.device(),
            v.device()
        );
        check!(
            q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} \
             instead.",
            q.dim(),
            k.dim(),
            v.dim()
        );
        if let Some(m) = self.mask {
            check!(
                matches!(m.dtype(), DType::Bool | DType::Float) || m.dtype() == q.dtype(),
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  \
                 query.dtype: {} instead.",
                name(m),
                name(q)
            );
        }
        Ok(())
    }
}

/// The size of a dimension counted from the end.
fn from_end(t: &Tensor, d: usize) -> i64 {
    t.sizes()[t.dim() - d]
}

/// Whether the fused kernel takes these inputs: four dimensions, or three without the batch.
fn fused_takes(i: &Inputs<'_>) -> bool {
    let rank = i.q.dim();
    if !settings::SDP_FLASH.get() || i.dropout > 0.0 || !(3..=4).contains(&rank) {
        return false;
    }
    if i.k.dim() != rank || i.v.dim() != rank {
        return false;
    }
    let four = |t: &Tensor| -> [i64; 4] {
        let s = t.sizes();
        [if rank == 4 { s[0] } else { 1 }, s[rank - 3], s[rank - 2], s[rank - 1]]
    };
    let (q, k, v) = (four(i.q), four(i.k), four(i.v));
    let same_heads = q[1] == k[1] && q[1] == v[1];
    let shared = k[1] == v[1] && (k[1] == 1 || (i.grouped && k[1] != 0 && q[1] % k[1] == 0));
    let mask = i.mask.is_none_or(|m| {
        let fits = |size: i64, want: i64| size == want || size == 1;
        // A mask without the batch goes with queries without it.
        let lead = if rank == 3 && m.dim() == 3 { 1 } else { 0 };
        let wanted = &q_by_keys(q, k)[lead..];
        match m.dim() {
            _ if m.requires_grad() => false,
            2 => fits(m.sizes()[0], q[2]) && fits(m.sizes()[1], k[2]),
            n if n == wanted.len() => m.sizes().iter().zip(wanted).all(|(s, w)| fits(*s, *w)),
            _ => false,
        }
    });
    (same_heads || shared)
        && mask
        && q[0] == k[0]
        && q[0] == v[0]
        && q[3] == k[3]
        && q[3] == v[3]
        && q[2] != 0
        && k[2] != 0
        && [i.q, i.k, i.v].iter().all(|t| t.strides()[rank - 1] == 1)
        && matches!(i.q.dtype(), DType::Float | DType::Double | DType::BFloat16 | DType::Half)
        && i.q.dtype() == i.k.dtype()
        && i.q.dtype() == i.v.dtype()
}

/// The shape of the scores.
fn q_by_keys(q: [i64; 4], k: [i64; 4]) -> [i64; 4] {
    [q[0], q[1], q[2], k[2]]
}

fn choice(i: &Inputs<'_>) -> Choice {
    if fused_takes(i) {
        Choice::Flash
    } else if settings::SDP_MATH.get() {
        Choice::Math
    } else {
        Choice::Error
    }
}

/// A mask of truth values as what is added to scores of the given dtype: zero or minus infinity.
fn additive(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Ok(mask.clone());
    }
    let low = op::scalar_tensor.call((Scalar::Float(f64::NEG_INFINITY), dtype, (), mask.device()))?;
    op::where_ScalarSelf.call((mask, Scalar::Float(0.0), low))
}

const EXPLICIT_MASK: &str =
    "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True";

/// scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,
/// bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
fn attention(a: Args<'_>) -> Result<Returns> {
    let i = Inputs::read(a)?;
    i.check()?;
    if let Some(m) = i.mask {
        // Masks have rows and columns, whichever way the scores are computed.
        shape::wrap_dim(-2, m.dim())?;
        check!(!i.causal, "{EXPLICIT_MASK}");
    }
    let chosen = if i.q.is_cpu() { choice(&i) } else { Choice::Math };
    if chosen == Choice::Flash && i.q.dim() == 3 {
        let batched = |t: &Tensor| op::unsqueeze.call((t, 0));
        let mut mask = i.mask.cloned();
        while let Some(m) = mask.as_ref().filter(|m| m.dim() < 4) {
            mask = Some(batched(m)?);
        }
        let mask = mask.map(|m| additive(&m, i.q.dtype())).transpose()?;
        let (q, k, v) = (batched(i.q)?, batched(i.k)?, batched(i.v)?);
        let out = op::_scaled_dot_product_flash_attention_for_cpu
            .call((q, k, v, i.dropout, i.causal, mask, i.scale))?;
        return Ok(op::squeeze_dim.call((out, 0))?.into());
    }
    let mask = i.mask.map(|m| additive(m, i.q.dtype())).transpose()?;
    let out = match chosen {
        Choice::Flash => op::_scaled_dot_product_flash_attention_for_cpu
            .call((i.q, i.k, i.v, i.dropout, i.causal, mask, i.scale))?,
        Choice::Math => op::_scaled_dot_product_attention_math.call((
            i.q,
            i.k,
            i.v,
            mask,
            i.dropout,
            i.causal,
            (),
            i.scale,
            i.grouped,
        ))?,
        Choice::Error => {
            bail!(Runtime, "No viable backend for scaled_dot_product_attention was found.")
        }
    };
    Ok(out.into())
}

/// `t * x` for a number.
fn scaled(t: &Tensor, x: f64) -> Result<Tensor> {
    op::mul_Scalar.call((t, Scalar::Float(x)))
}

/// Keys or values repeated for the query heads that share them.
fn repeated(t: &Tensor, heads: i64) -> Result<Tensor> {
    let own = from_end(t, 3);
    if own == heads { Ok(t.clone()) } else { op::repeat_interleave_self_int.call((t, heads / own, -3)) }
}

/// _scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,
/// bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)
fn math(a: Args<'_>) -> Result<Returns> {
    let (q, k, v) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let (dropout, causal) = (a.double(4)?, a.bool(5)?);
    let dtype = q.dtype();
    // Half precision is computed in single precision unless the user allows otherwise.
    let wide = |t: &Tensor| match t.dtype() {
        DType::Half | DType::BFloat16 if !settings::SDP_MATH_REDUCTION.get() => {
            op::to_dtype.call((t, DType::Float))
        }
        _ => Ok(t.clone()),
    };
    let (q, k, v) = (wide(q)?, wide(k)?, wide(v)?);
    let scale = a.opt_double(7)?;
    let magnitude = scale.map_or_else(|| 1.0 / (from_end(&q, 1) as f64).sqrt(), f64::abs);
    // Each factor of the product takes the root of the scale: less range is needed than by scaling the product.
    let root = magnitude.sqrt();
    let q = scaled(&q, if scale.is_some_and(|s| s < 0.0) { -root } else { root })?;
    let mut mask = a.opt_tensor(3).cloned();
    if causal {
        check!(mask.is_none(), "{EXPLICIT_MASK}");
        let sizes = [from_end(&q, 2), from_end(&k, 2)];
        let ones = op::ones.call((sizes, DType::Bool, (), q.device()))?;
        mask = Some(additive(&op::tril.call((ones,))?, q.dtype())?);
    }
    let (mut k, mut v) = (k, v);
    if a.bool(8)? {
        check!(
            q.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3,
            Index;
            "Dimension out of range (expected to be in range of [-2, 1], but got -3)"
        );
        let heads = from_end(&q, 3);
        let divides = |t: &Tensor| from_end(t, 3) != 0 && heads % from_end(t, 3) == 0;
        check!(
            divides(&k) && divides(&v),
            "Number of heads in key and value must divide the number of heads in query"
        );
        (k, v) = (repeated(&k, heads)?, repeated(&v, heads)?);
    }
    let keys = scaled(&op::transpose_int.call((&k, -2, -1))?, root)?;
    let mut weights = op::matmul.call((&q, keys))?;
    if let Some(m) = &mask {
        weights = op::add__Tensor.call((&weights, m))?;
    }
    weights = op::_safe_softmax.call((&weights, -1))?;
    if dropout > 0.0 {
        if let Some(keep) = a.opt_tensor(6) {
            let dropped = op::logical_not.call((keep,))?;
            weights = op::masked_fill_Scalar.call((&weights, dropped, Scalar::Float(0.0)))?;
            v = scaled(&v, 1.0 / (1.0 - dropout))?;
        } else {
            weights = op::dropout.call((&weights, dropout, true))?;
        }
    }
    let out = op::matmul.call((&weights, &v))?;
    Ok((op::to_dtype.call((out, dtype))?, op::to_dtype.call((weights, dtype))?).into())
}

const FUSED: &str = "scaled_dot_product_attention_flash_attention";

/// The strides that `empty_like` gives.
fn like_strides(t: &Tensor) -> IntList {
    if t.is_non_overlapping_and_dense() {
        t.strides().into()
    } else {
        shape::infer_dense_strides(t.sizes(), t.strides())
    }
}

/// _scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0,
/// bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)
fn fused_meta(a: Args<'_>) -> Result<Specs> {
    let (q, k, v) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    check!(
        matches!(q.dtype(), DType::Float | DType::Double | DType::BFloat16 | DType::Half),
        "{FUSED}: Expected data type in FP32, FP64, BF16, FP16, but got {} instead.",
        q.dtype().scalar_type_name()
    );
    check!(
        q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
        "{FUSED}: Accept only 4 dims inputs shape of {{B, H, T, K}}"
    );
    check!(a.double(3)? == 0.0, "{FUSED}: Currently do not support dropout > 0");
    let (qs, ks, vs) = (q.sizes(), k.sizes(), v.sizes());
    check!(qs[3] == vs[3] && ks[3] == vs[3], "{FUSED}: Q/K/V should have the same head size");
    if let Some(m) = a.opt_tensor(5) {
        check!(
            m.dtype() == DType::Float || m.dtype() == q.dtype(),
            "{FUSED}: Attention mask is the same data type as query"
        );
        check!(matches!(m.dim(), 2 | 4), "{FUSED}: Attention mask dim in {{2, 4}}");
        shape::expand_strides(m.sizes(), m.strides(), &[qs[0], qs[1], qs[2], ks[2]])?;
    }
    check!(
        k.dtype() == q.dtype() && v.dtype() == q.dtype(),
        "expected scalar type {} but found {}",
        q.dtype().scalar_type_name(),
        if k.dtype() != q.dtype() { k.dtype() } else { v.dtype() }.scalar_type_name()
    );
    check!(
        ks[..3] == vs[..3] && qs[0] == ks[0],
        "{FUSED}: Expected query, key and value of the same batch size and key and value of the same shape, but got {qs:?}, {ks:?} \
         and {vs:?}"
    );
    check!(
        ks[1] == qs[1] || (ks[1] != 0 && qs[1] % ks[1] == 0),
        "{FUSED}: Number of heads in key and value must divide the number of heads in query"
    );
    let out = OutSpec::like(q, qs).strides(like_strides(q));
    let wide = if q.dtype() == DType::Double { DType::Double } else { DType::Float };
    let sums = OutSpec::new(&qs[..3], wide, q.device()).strides(&[qs[2] * qs[1], 1, qs[1]][..]);
    Ok(Specs::from_iter([out, sums]))
}

fn scale_of(q: &Tensor, scale: Option<f64>) -> f64 {
    scale.unwrap_or_else(|| 1.0 / (from_end(q, 1) as f64).sqrt())
}

fn fused(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (q, k, v) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let mut mask = a.opt_tensor(5).cloned();
    if let Some(m) = &mut mask {
        if q.dtype() == DType::Double {
            *m = copy::convert(m, DType::Double)?;
        }
        *m = views::expanded(m, &[q.sizes()[0], q.sizes()[1], q.sizes()[2], k.sizes()[2]])?;
    }
    let (scale, causal) = (scale_of(q, a.opt_double(6)?), a.bool(4)?);
    dispatch!("flash_attention", q.dtype(), floating, T =>
        kernel::attention::<T>(q, k, v, mask.as_ref(), scale, causal, &out[0], &out[1]));
    Ok(())
}

/// Gradients in the layout of upstream's kernel: batch, row, head, column in memory.
fn backward_layout(t: &Tensor, out: &Tensor) -> Result<Tensor> {
    let s = t.sizes();
    let rows = factory::empty(&[s[0], s[2], s[1], s[3]], t.dtype(), t.device())?;
    let g = views::permute(&rows, &[0, 2, 1, 3])?;
    copy::copy_into(&g, out)?;
    Ok(g)
}

fn fused_backward_meta(a: Args<'_>) -> Result<Returns> {
    let like = |i: usize| -> Result<Tensor> {
        let t = a.tensor(i)?;
        backward_layout(t, t)
    };
    Ok((like(1)?, like(2)?, like(3)?).into())
}

/// _scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out,
/// Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query,
/// Tensor grad_key, Tensor grad_value)
///
/// The weights come back as `exp(scores - logsumexp)`, one batch entry at a time.
fn fused_backward(a: Args<'_>) -> Result<Returns> {
    let t = |i: usize| a.tensor(i);
    let (grad, q, k, v, out, sums) = (t(0)?, t(1)?, t(2)?, t(3)?, t(4)?, t(5)?);
    check!(a.double(6)? == 0.0, "{FUSED}: Currently do not support dropout > 0");
    let scale = scale_of(q, a.opt_double(9)?);
    let wide = sums.dtype();
    let (qs, ks) = (q.sizes(), k.sizes());
    let (heads, kv_heads, rows, keys) = (qs[1], ks[1], qs[2], ks[2]);
    let mut mask = match a.opt_tensor(8) {
        Some(m) => Some(views::expanded(&copy::convert(m, wide)?, &[qs[0], heads, rows, keys])?),
        None => None,
    };
    if a.bool(7)? {
        let seen = op::tril.call((op::ones.call(([rows, keys], DType::Bool))?,))?;
        let causal = views::expanded(&additive(&seen, wide)?, &[qs[0], heads, rows, keys])?;
        mask = Some(match mask {
            Some(m) => op::add_Tensor.call((m, causal))?,
            None => causal,
        });
    }
    let entry = |t: &Tensor, b: i64| copy::convert(&views::select(t, 0, b)?, wide);
    let spread = |t: &Tensor| repeated(t, heads);
    // Heads that share keys add their gradients.
    let gather = |g: Tensor| -> Result<Tensor> {
        if heads == kv_heads {
            return Ok(g);
        }
        let s = [kv_heads, heads / kv_heads, keys, g.sizes()[2]];
        op::sum_dim_IntList.call((views::view(&copy::contiguous(&g)?, &s)?, [1]))
    };
    let turned = |t: &Tensor| op::transpose_int.call((t, -2, -1));
    let (mut gq, mut gk, mut gv) = (Vec::new(), Vec::new(), Vec::new());
    for b in 0..qs[0] {
        let (g, q, k, v, o) =
            (entry(grad, b)?, entry(q, b)?, spread(&entry(k, b)?)?, spread(&entry(v, b)?)?, entry(out, b)?);
        let mut scores = scaled(&op::bmm.call((&q, turned(&k)?))?, scale)?;
        if let Some(m) = &mask {
            scores = op::add_Tensor.call((&scores, views::select(m, 0, b)?))?;
        }
        let sums = op::unsqueeze.call((views::select(sums, 0, b)?, -1))?;
        // A row without keys has scores of minus infinity and a logarithm of zero, and so no weights.
        let p = op::exp.call((op::sub_Tensor.call((&scores, sums))?,))?;
        gv.push(gather(op::bmm.call((turned(&p)?, &g))?)?);
        let dp = op::bmm.call((&g, turned(&v)?))?;
        let own = op::sum_dim_IntList.call((op::mul_Tensor.call((&g, &o))?, [-1], true))?;
        let ds = scaled(&op::mul_Tensor.call((&p, op::sub_Tensor.call((dp, own))?))?, scale)?;
        gq.push(op::bmm.call((&ds, &k))?);
        gk.push(gather(op::bmm.call((turned(&ds)?, &q))?)?);
    }
    let join = |t: &Tensor, parts: Vec<Tensor>| -> Result<Tensor> {
        if parts.is_empty() {
            return backward_layout(t, t);
        }
        backward_layout(t, &op::stack.call((parts,))?)
    };
    Ok((join(q, gq)?, join(k, gk)?, join(v, gv)?).into())
}
