//! The fused inference paths of `nn.MultiheadAttention` and `nn.TransformerEncoderLayer`, written with other operators.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::{DType, IValue, MemoryFormat, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::_native_multi_head_attention, |a| {
        let (q, k, v) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
        let heads = Heads {
            width: a.int(3)?,
            count: a.int(4)?,
            qkv: (a.tensor(5)?, a.tensor(6)?),
            out: (a.tensor(7)?, a.tensor(8)?),
        };
        let (out, weights) = attend(&heads, [q, k, v], a.opt_tensor(9), a.opt_int(12)?)?;
        let weights = if !a.bool(10)? {
            IValue::None
        } else if a.bool(11)? {
            op::mean_dim.call((weights, [1]))?.into()
        } else {
            weights.into()
        };
        Ok((out, weights).into())
    })
    .explicit(op::_transformer_encoder_layer_fwd, encoder_layer);
}

/// The parameters of an attention layer.
struct Heads<'a> {
    width: i64,
    count: i64,
    /// Weight and bias of the projections of queries, keys and values, one below the other.
    qkv: (&'a Tensor, &'a Tensor),
    /// Weight and bias of the output's projection.
    out: (&'a Tensor, &'a Tensor),
}

/// What a mask covers.
const SOURCE: i64 = 0;
const PADDING: i64 = 1;

/// Attention of (batch, rows, width); the result and the weights of every head.
fn attend(
    h: &Heads<'_>,
    x: [&Tensor; 3],
    mask: Option<&Tensor>,
    kind: Option<i64>,
) -> Result<(Tensor, Tensor)> {
    let [q, k, v] = x;
    for t in x {
        check!(t.dim() == 3, "expected 3-D `query`, `key` and `value`, got {}-D tensor", t.dim());
    }
    check!(
        q.sizes() == k.sizes() && k.sizes() == v.sizes(),
        "expected `query`/`key`/`value` shapes to match"
    );
    check!(
        q.sizes()[2] == h.width,
        "passed-in embed_dim {} didn't match last dim of query {}",
        h.width,
        q.sizes()[2]
    );
    check!(h.count > 0 && h.width % h.count == 0, "`embed_dim` must divide evenly by `num_heads`");
    check!(
        h.qkv.0.dim() == 2 && h.qkv.0.sizes()[0] == 3 * h.width && h.qkv.0.sizes()[1] == h.width,
        "expected `qkv_weight` first dim to be 3x embed_dim"
    );
    let each = h.width / h.count;
    let project = |t: &Tensor, i: i64| -> Result<Tensor> {
        let part = |p: &Tensor| op::narrow.call((p, 0, i * h.width, h.width));
        let rows = op::linear.call((t, part(h.qkv.0)?, part(h.qkv.1)?))?;
        let split = op::reshape.call((rows, [t.sizes()[0], t.sizes()[1], h.count, each]))?;
        op::transpose_int.call((split, 1, 2))
    };
    let scale = 1.0 / (each as f64).sqrt();
    let q = op::mul_Scalar.call((project(q, 0)?, Scalar::Float(scale)))?;
    let mut scores = op::matmul.call((q, op::transpose_int.call((project(k, 1)?, -2, -1))?))?;
    if let Some(m) = mask {
        let m = if m.dtype() == DType::Bool { m.clone() } else { op::to_dtype.call((m, DType::Bool))? };
        let s = m.sizes();
        let shape: Vec<i64> = match (kind, s.len()) {
            (Some(SOURCE), 2) => vec![1, 1, s[0], s[1]],
            (Some(PADDING), 2) => vec![s[0], 1, 1, s[1]],
            (_, 4) => s.to_vec(),
            _ => crate::bail!(
                Runtime,
                "Mask shape {s:?} does not go with its type for scores of {:?}",
                scores.sizes()
            ),
        };
        let covered = op::view.call((m, shape))?;
        scores = op::masked_fill_Scalar.call((scores, covered, Scalar::Float(f64::NEG_INFINITY)))?;
    }
    let weights = op::softmax_int.call((scores, -1))?;
    let mixed = op::transpose_int.call((op::matmul.call((&weights, project(v, 2)?))?, 1, 2))?;
    let sizes = [x[0].sizes()[0], x[0].sizes()[1], h.width];
    let mixed = op::reshape.call((op::clone.call((mixed, MemoryFormat::Contiguous))?, sizes))?;
    Ok((op::linear.call((mixed, h.out.0, h.out.1))?, weights))
}

/// _transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight,
/// Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2,
/// Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None,
/// int? mask_type=None) -> Tensor
fn encoder_layer(a: Args<'_>) -> Result<Returns> {
    let x = a.tensor(0)?;
    let heads = Heads {
        width: a.int(1)?,
        count: a.int(2)?,
        qkv: (a.tensor(3)?, a.tensor(4)?),
        out: (a.tensor(5)?, a.tensor(6)?),
    };
    let (gelu, norm_first, eps) = (a.bool(7)?, a.bool(8)?, a.double(9)?);
    let norm =
        |t: &Tensor, i: usize| op::layer_norm.call((t, [heads.width], a.tensor(i)?, a.tensor(i + 1)?, eps));
    let attention =
        |t: &Tensor| -> Result<Tensor> { Ok(attend(&heads, [t, t, t], a.opt_tensor(18), a.opt_int(19)?)?.0) };
    let feed = |t: &Tensor| -> Result<Tensor> {
        let wide = op::linear.call((t, a.tensor(14)?, a.tensor(15)?))?;
        let wide = if gelu { op::gelu.call((wide,))? } else { op::relu.call((wide,))? };
        op::linear.call((wide, a.tensor(16)?, a.tensor(17)?))
    };
    let add = |x: &Tensor, y: Tensor| op::add_Tensor.call((x, y));
    Ok(if norm_first {
        let x = add(x, attention(&norm(x, 10)?)?)?;
        add(&x, feed(&norm(&x, 12)?)?)?
    } else {
        let x = norm(&add(x, attention(x)?)?, 10)?;
        norm(&add(&x, feed(&x)?)?, 12)?
    }
    .into())
}
