//! Losses.

use crate::cpu::loss as kernel;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::iter::result_type;
use crate::ivalue::{Args, IntList};
use crate::ops::copy;
use crate::tensor::factory;
use crate::{DType, Error, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::mse_loss, mse)
        .explicit(op::smooth_l1_loss, |a| {
            let beta = a.double(3)?;
            check!(beta >= 0.0, "smooth_l1_loss does not support negative values for beta.");
            piecewise(a, "smooth_l1_cpu", beta, false)
        })
        .explicit(op::huber_loss, |a| {
            let delta = a.double(3)?;
            check!(delta > 0.0, "huber_loss does not support non-positive values for delta.");
            piecewise(a, "huber_cpu", delta, true)
        })
        .explicit(op::soft_margin_loss, soft_margin)
        .implicit(op::l1_loss, |a| {
            let diff = op::abs.call((op::sub_Tensor.call((a.tensor(0)?, a.tensor(1)?))?,))?;
            Ok(reduce(diff, a.int(2)?)?.into())
        })
        .implicit(op::kl_div, kl_div)
        .structured(op::binary_cross_entropy, bce_meta, bce)
        .explicit(op::binary_cross_entropy_with_logits, bce_with_logits)
        .implicit(op::hinge_embedding_loss, hinge_embedding)
        .implicit(op::margin_ranking_loss, margin_ranking)
        .implicit(op::cosine_embedding_loss, cosine_embedding)
        .implicit(op::triplet_margin_loss, triplet_margin)
        .implicit(op::poisson_nll_loss, poisson_nll);
    r.structured(op::nll_loss_forward, nll_meta, nll)
        .structured(op::nll_loss2d_forward, nll2d_meta, nll2d)
        .implicit(op::nll_loss, |a| {
            Ok(op::nll_loss_forward
                .call((a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2), a.int(3)?, a.int(4)?))?
                .into())
        })
        .implicit(op::nll_loss2d, |a| {
            Ok(op::nll_loss2d_forward
                .call((a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2), a.int(3)?, a.int(4)?))?
                .into())
        })
        .implicit(op::nll_loss_nd, |a| {
            Ok(nll_nd(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2), a.int(3)?, a.int(4)?)?.into())
        })
        .implicit(op::cross_entropy_loss, cross_entropy)
        .structured(op::multi_margin_loss, multi_margin_meta, multi_margin)
        .structured(op::multilabel_margin_loss_forward, multilabel_meta, multilabel)
        .implicit(op::multilabel_margin_loss, |a| {
            Ok(op::multilabel_margin_loss_forward.call((a.tensor(0)?, a.tensor(1)?, a.int(2)?))?.into())
        });
}

const MEAN: i64 = 1;
const SUM: i64 = 2;

/// The loss as the reduction wants it: 0 each, 1 the mean, 2 the sum.
fn reduce(loss: Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => op::mean.call((loss,)),
        SUM => op::sum.call((loss,)),
        _ => Ok(loss),
    }
}

fn check_floating(name: &str, d: DType) -> Result<()> {
    match d {
        DType::Float | DType::Double | DType::Half | DType::BFloat16 => Ok(()),
        other => Err(Error::dtype_not_implemented(name, other)),
    }
}

/// mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor
fn mse(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check_floating("mse_cpu", result_type([x, y])?)?;
    let diff = op::sub_Tensor.call((x, y))?;
    Ok(reduce(op::mul_Tensor.call((&diff, &diff))?, a.int(2)?)?.into())
}

/// Quadratic up to `beta`, linear beyond; the Huber loss is the same times `beta`.
fn piecewise(a: Args<'_>, name: &str, beta: f64, huber: bool) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let dtype = result_type([x, y])?;
    check_floating(name, dtype)?;
    let out_dtype = if huber { x.dtype() } else { dtype };
    // Half precision is computed in single precision.
    let wide = if dtype == DType::Double { DType::Double } else { DType::Float };
    let to = |t: &Tensor| op::to_dtype.call((t, wide));
    let z = op::abs.call((op::sub_Tensor.call((to(x)?, to(y)?))?,))?;
    let loss = if beta == 0.0 {
        z
    } else {
        let half = op::mul_Scalar.call((op::mul_Tensor.call((&z, &z))?, Scalar::Float(0.5)))?;
        let line = op::sub_Scalar.call((&z, Scalar::Float(0.5 * beta)))?;
        if huber {
            let near = op::le_Scalar.call((&z, Scalar::Float(beta)))?;
            op::where_self.call((near, half, op::mul_Scalar.call((line, Scalar::Float(beta)))?))?
        } else {
            let near = op::lt_Scalar.call((&z, Scalar::Float(beta)))?;
            op::where_self.call((near, op::div_Scalar.call((half, Scalar::Float(beta)))?, line))?
        }
    };
    Ok(reduce(op::to_dtype.call((loss, out_dtype))?, a.int(2)?)?.into())
}

/// soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor
fn soft_margin(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let z = op::mul_Tensor.call((op::neg.call((x,))?, y))?;
    let e = op::exp.call((z,))?;
    check!(
        crate::dtype::can_cast(e.dtype(), x.dtype()),
        "result type {} can't be cast to the desired output type {}",
        e.dtype().scalar_type_name(),
        x.dtype().scalar_type_name()
    );
    let loss = op::to_dtype.call((op::log1p.call((e,))?, x.dtype()))?;
    Ok(reduce(loss, a.int(2)?)?.into())
}

/// kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor
fn kl_div(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    for d in [x.dtype(), y.dtype()] {
        check!(!d.is_complex(), "kl_div: Complex inputs not supported.");
        check!(!d.is_integral(true), "kl_div: Integral inputs not supported.");
    }
    let loss = if a.bool(3)? {
        op::mul_Tensor.call((op::exp.call((y,))?, op::sub_Tensor.call((y, x))?))?
    } else {
        op::sub_Tensor.call((op::xlogy_Tensor.call((y, y))?, op::mul_Tensor.call((y, x))?))?
    };
    Ok(reduce(loss, a.int(2)?)?.into())
}

/// binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor
fn bce_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        x.dtype() == y.dtype(),
        "Found dtype {} but expected {}",
        y.dtype().scalar_type_name(),
        x.dtype().scalar_type_name()
    );
    if a.int(3)? != 0 {
        return Ok(OutSpec::like(x, &[][..]).into());
    }
    let like = factory::empty_like(x, x.dtype(), MemoryFormat::Preserve)?;
    Ok(OutSpec::like(x, x.sizes()).strides(like.strides()).into())
}

fn bce(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check_floating("binary_cross_entropy", x.dtype())?;
    let wide = if x.dtype() == DType::Double { DType::Double } else { DType::Float };
    let (p, t) = (copy::convert(x, wide)?, copy::convert(y, wide)?);
    let outside = op::logical_not.call((op::logical_and
        .call((op::ge_Scalar.call((&p, Scalar::Int(0)))?, op::le_Scalar.call((&p, Scalar::Int(1)))?))?,))?;
    let any = op::any.call((outside,))?;
    check!(!crate::ops::options::item(&any)?.to_bool(), "all elements of input should be between 0 and 1");
    // Logarithms are kept above -100, so that a certain wrong answer has a finite loss.
    let floor = |t: Tensor| op::clamp_min.call((t, Scalar::Float(-100.0)));
    let yes = floor(op::log.call((&p,))?)?;
    let no = floor(op::log1p.call((op::neg.call((&p,))?,))?)?;
    let certain = op::mul_Tensor.call((op::sub_Scalar.call((&t, Scalar::Int(1)))?, no))?;
    let mut loss = op::sub_Tensor.call((certain, op::mul_Tensor.call((&t, yes))?))?;
    if let Some(w) = a.opt_tensor(2) {
        loss = op::mul_Tensor.call((loss, copy::convert(w, wide)?))?;
    }
    copy::copy_into(&out[0], &reduce(loss, a.int(3)?)?)
}

/// binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None,
/// int reduction=Mean) -> Tensor
fn bce_with_logits(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let mut log = op::log_sigmoid.call((x,))?;
    if let Some(p) = a.opt_tensor(3) {
        let extra = op::mul_Tensor.call((op::sub_Scalar.call((p, Scalar::Int(1)))?, y))?;
        log = op::mul_Tensor.call((log, op::add_Scalar.call((extra, Scalar::Int(1)))?))?;
    }
    let rest = op::mul_Tensor.call((op::rsub_Scalar.call((y, Scalar::Int(1)))?, x))?;
    let mut loss = op::sub_Tensor.call((rest, log))?;
    if let Some(w) = a.opt_tensor(2) {
        loss = op::mul_Tensor.call((loss, w))?;
    }
    Ok(reduce(loss, a.int(4)?)?.into())
}

fn zeros_like(t: &Tensor) -> Result<Tensor> {
    op::zeros_like.call((t,))
}

/// hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor
fn hinge_embedding(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let zeros = zeros_like(x)?;
    // The margin takes the input's dtype.
    let margin = a.double(2)?;
    let margin =
        if x.dtype().is_integral(false) { Scalar::Int(margin as i64) } else { Scalar::Float(margin) };
    let below = op::clamp_min.call((op::rsub_Scalar.call((x, margin))?, Scalar::Int(0)))?;
    let negative = op::where_self.call((op::ne_Scalar.call((y, Scalar::Int(1)))?, below, &zeros))?;
    let positive = op::where_self.call((op::ne_Scalar.call((y, Scalar::Int(-1)))?, x, &zeros))?;
    Ok(reduce(op::add_Tensor.call((negative, positive))?, a.int(3)?)?.into())
}

/// margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor
fn margin_ranking(a: Args<'_>) -> Result<Returns> {
    let diff = op::sub_Tensor.call((a.tensor(0)?, a.tensor(1)?))?;
    let turned = op::mul_Tensor.call((op::neg.call((a.tensor(2)?,))?, diff))?;
    let over = op::add_Scalar.call((turned, Scalar::Float(a.double(3)?)))?;
    Ok(reduce(op::clamp_min.call((over, Scalar::Int(0)))?, a.int(4)?)?.into())
}

/// cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor
fn cosine_embedding(a: Args<'_>) -> Result<Returns> {
    const EPSILON: f64 = 1e-12;
    let (x, y, target) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let d = target.dim();
    check!(d <= 1, "0D or 1D target tensor expected, multi-target not supported");
    if d == 1 {
        check!(
            x.dim() == 2 && y.dim() == 2,
            "1D target tensor expects 2D input tensors, but found inputs with sizes {:?} and {:?}.",
            x.sizes(),
            y.sizes()
        );
    } else {
        check!(
            x.dim() == 1 && y.dim() == 1,
            "0D target tensor expects 1D input tensors, but found inputs with sizes {:?} and {:?}.",
            x.sizes(),
            y.sizes()
        );
    }
    let along = [d as i64];
    let total = |p: Tensor| op::sum_dim_IntList.call((p, along));
    let product = total(op::mul_Tensor.call((x, y))?)?;
    let square = |t: &Tensor| -> Result<Tensor> {
        op::add_Scalar.call((total(op::mul_Tensor.call((t, t))?)?, Scalar::Float(EPSILON)))
    };
    let norm = op::sqrt.call((op::mul_Tensor.call((square(x)?, square(y)?))?,))?;
    let cosine = op::div_Tensor.call((product, norm))?;
    let zeros = zeros_like(&cosine)?;
    let near = op::rsub_Scalar.call((&cosine, Scalar::Int(1)))?;
    let far =
        op::clamp_min.call((op::sub_Scalar.call((&cosine, Scalar::Float(a.double(3)?)))?, Scalar::Int(0)))?;
    let positive = op::where_self.call((op::eq_Scalar.call((target, Scalar::Int(1)))?, near, &zeros))?;
    let negative = op::where_self.call((op::eq_Scalar.call((target, Scalar::Int(-1)))?, far, &zeros))?;
    Ok(reduce(op::add_Tensor.call((positive, negative))?, a.int(4)?)?.into())
}

/// triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06,
/// bool swap=False, int reduction=Mean) -> Tensor
fn triplet_margin(a: Args<'_>) -> Result<Returns> {
    let (x, p, n) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    check!(
        x.dim() == p.dim() && x.dim() == n.dim(),
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, \
         positive {}D, and negative {}D inputs",
        x.dim(),
        p.dim(),
        n.dim()
    );
    let (margin, order, eps) = (a.double(3)?, a.double(4)?, a.double(5)?);
    check!(margin > 0.0, Value; "margin must be greater than 0, got {margin}");
    let distance = |a: &Tensor, b: &Tensor| op::pairwise_distance.call((a, b, order, eps));
    let near = distance(x, p)?;
    let mut far = distance(x, n)?;
    if a.bool(6)? {
        far = op::minimum.call((far, distance(p, n)?))?;
    }
    let over = op::sub_Tensor.call((op::add_Scalar.call((near, Scalar::Float(margin)))?, far))?;
    Ok(reduce(op::clamp_min.call((over, Scalar::Int(0)))?, a.int(7)?)?.into())
}

/// poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor
fn poisson_nll(a: Args<'_>) -> Result<Returns> {
    let (x, y, eps) = (a.tensor(0)?, a.tensor(1)?, Scalar::Float(a.double(4)?));
    let mut loss = if a.bool(2)? {
        op::sub_Tensor.call((op::exp.call((x,))?, op::mul_Tensor.call((y, x))?))?
    } else {
        let log = op::log.call((op::add_Scalar.call((x, eps))?,))?;
        op::sub_Tensor.call((x, op::mul_Tensor.call((y, log))?))?
    };
    if a.bool(3)? {
        // Stirling's approximation of the logarithm of the factorial.
        let log = op::log.call((y,))?;
        let root = op::log.call((op::mul_Scalar.call((y, Scalar::Float(2.0 * std::f64::consts::PI)))?,))?;
        let own = op::sub_Tensor.call((op::mul_Tensor.call((y, log))?, y))?;
        let stirling = op::add_Tensor.call((own, op::mul_Scalar.call((root, Scalar::Float(0.5)))?))?;
        let small = op::le_Scalar.call((y, Scalar::Int(1)))?;
        loss =
            op::add_Tensor.call((loss, op::masked_fill_Scalar.call((stirling, small, Scalar::Int(0)))?))?;
    }
    Ok(reduce(loss, a.int(5)?)?.into())
}

fn check_weight(w: Option<&Tensor>, classes: i64, message: impl Fn(&Tensor) -> String) -> Result<()> {
    if let Some(w) = w
        && w.numel() != classes
    {
        bail!(Runtime, "{}", message(w));
    }
    Ok(())
}

/// nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)
/// -> (Tensor output, Tensor total_weight)
fn nll_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(matches!(x.dim(), 1 | 2), "input tensor should be 1D or 2D");
    check!(y.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
    if x.dim() == 1 && y.dim() == 1 {
        check!(
            y.sizes()[0] == 1,
            Value;
            "For 1D input, 1D target must have size 1, but got target size: {}",
            y.sizes()[0]
        );
    } else if x.dim() == 2 {
        check!(
            y.dim() == 1 && x.sizes()[0] == y.sizes()[0],
            "size mismatch (got input: {:?}, target: {:?})",
            x.sizes(),
            y.sizes()
        );
    }
    let classes = x.sizes()[x.dim() - 1];
    check_weight(a.opt_tensor(2), classes, |w| {
        format!(
            "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {:?}",
            w.sizes()
        )
    })?;
    check_nll_dtypes(a)?;
    let sizes: &[i64] = if a.int(3)? == 0 && x.dim() == 2 { &x.sizes()[..1] } else { &[] };
    Ok(Specs::from_iter([OutSpec::like(x, sizes), OutSpec::like(x, &[][..])]))
}

fn check_nll_dtypes(a: Args<'_>) -> Result<()> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        matches!(y.dtype(), DType::Long | DType::Byte),
        "expected target dtype to be Long or Byte, but got {}",
        y.dtype().scalar_type_name()
    );
    if let Some(w) = a.opt_tensor(2) {
        check!(
            w.dtype() == x.dtype(),
            "expected scalar type {} but found {}",
            x.dtype().scalar_type_name(),
            w.dtype().scalar_type_name()
        );
    }
    Ok(())
}

/// The input as (rows, classes, 1) with its target and weight in forms the kernel reads.
fn nll(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let (rows, classes) = if x.dim() == 2 { (x.sizes()[0], x.sizes()[1]) } else { (1, x.sizes()[0]) };
    nll_run(a, "nll_loss_out_frame", x, y, [rows, classes, 1], out)
}

fn nll_run(a: Args<'_>, name: &str, x: &Tensor, y: &Tensor, shape: [i64; 3], out: &[Tensor]) -> Result<()> {
    check_floating(name, x.dtype())?;
    let wide = if x.dtype() == DType::Double { DType::Double } else { DType::Float };
    let x = copy::contiguous(&copy::convert(x, wide)?)?;
    let y = copy::contiguous(&copy::convert(y, DType::Long)?)?;
    let w = match a.opt_tensor(2) {
        Some(w) => Some(copy::contiguous(&copy::convert(w, wide)?)?),
        None => None,
    };
    let each = a.int(3)? == 0 && out[0].dim() > 0;
    let loss = factory::empty(out[0].sizes(), wide, x.device())?;
    let total = factory::empty(&[], wide, x.device())?;
    let mean = a.int(3)? == MEAN;
    if wide == DType::Double {
        kernel::nll::<f64>(&x, &y, w.as_ref(), shape, a.int(4)?, each, mean, &loss, &total)?;
    } else {
        kernel::nll::<f32>(&x, &y, w.as_ref(), shape, a.int(4)?, each, mean, &loss, &total)?;
    }
    copy::copy_into(&out[0], &loss)?;
    copy::copy_into(&out[1], &total)
}

fn nll2d_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        y.dim() == 3,
        "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
        y.dim()
    );
    check!(
        x.dim() == 4,
        "only batches of spatial inputs supported (4D tensors), but got input of dimension: {}",
        x.dim()
    );
    let (s, t) = (x.sizes(), y.sizes());
    check_weight(a.opt_tensor(2), s[1], |_| {
        "weight tensor should be defined either for all or no classes".to_string()
    })?;
    check!(s[0] == t[0] && s[2] == t[1] && s[3] == t[2], "size mismatch (got input: {s:?} , target: {t:?}");
    check_nll_dtypes(a)?;
    let sizes: &[i64] = if a.int(3)? == 0 { t } else { &[] };
    Ok(Specs::from_iter([OutSpec::like(x, sizes), OutSpec::like(x, &[][..])]))
}

fn nll2d(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let s = x.sizes();
    nll_run(a, "nll_loss2d_forward_out_frame", x, y, [s[0], s[1], s[2] * s[3]], out)
}

fn nll_nd(x: &Tensor, y: &Tensor, w: Option<&Tensor>, reduction: i64, ignore: i64) -> Result<Tensor> {
    check!(x.dim() > 0, Value; "Expected 1 or more dimensions (got {})", x.dim());
    if x.dim() != 1 {
        let rows = y.sizes().first().copied();
        check!(
            rows == Some(x.sizes()[0]),
            Value;
            "Expected input batch_size ({}) to match target batch_size ({}).",
            x.sizes()[0],
            rows.unwrap_or(1)
        );
    }
    match x.dim() {
        1 | 2 => op::nll_loss.call((x, y, w, reduction, ignore)),
        4 => op::nll_loss2d.call((x, y, w, reduction, ignore)),
        _ => {
            let s = x.sizes();
            let mut sizes = IntList::from_slice(&[s[0]]);
            sizes.extend_from_slice(&s[2..]);
            check!(y.sizes()[1..] == s[2..], "Expected target size {:?}, got {:?}", &sizes[..], y.sizes());
            let rest = if x.numel() > 0 { [1, -1] } else { [0, 0] };
            let x = op::view.call((op::contiguous.call((x,))?, [s[0], s[1], rest[0], rest[1]]))?;
            let y = op::view.call((op::contiguous.call((y,))?, [s[0], rest[0], rest[1]]))?;
            let loss = op::nll_loss2d.call((x, y, w, reduction, ignore))?;
            if reduction == 0 { op::view.call((loss, sizes)) } else { Ok(loss) }
        }
    }
}

/// cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100,
/// float label_smoothing=0.0) -> Tensor
fn cross_entropy(a: Args<'_>) -> Result<Returns> {
    let (x, y, w, reduction, ignore, smoothing) =
        (a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2), a.int(3)?, a.int(4)?, a.double(5)?);
    let within = || -> Result<()> {
        check!(smoothing <= 1.0, "label_smoothing must be between 0.0 and 1.0. Got: {smoothing}");
        Ok(())
    };
    let class_dim = i64::from(x.dim() != 1);
    let log = |t: &Tensor| op::log_softmax_int.call((t, class_dim, t.dtype()));
    if x.sizes() == y.sizes() {
        check!(
            y.dtype().is_floating_point(),
            "Expected floating point type for target with class probabilities, got {}",
            y.dtype().scalar_type_name()
        );
        check!(ignore < 0, "ignore_index is not supported for floating point target");
        within()?;
        return Ok(soft_targets(x, y, w, reduction, smoothing)?.into());
    }
    if smoothing <= 0.0 {
        return Ok(nll_nd(&log(x)?, y, w, reduction, ignore)?.into());
    }
    within()?;
    let input = log(x)?;
    let classes = x.size(class_dim)?;
    let hard = nll_nd(&input, y, w, reduction, ignore)?;
    let spread = match w {
        Some(w) => op::mul_Tensor.call((&input, by_class(w, &input)?))?,
        None => input.clone(),
    };
    let smooth = op::neg.call((op::sum_dim_IntList.call((spread, [class_dim]))?,))?;
    let ignored = op::eq_Scalar.call((y, Scalar::Int(ignore)))?;
    let smooth = op::masked_fill_Scalar.call((smooth, &ignored, Scalar::Float(0.0)))?;
    let even = match reduction {
        MEAN => {
            let kept = op::bitwise_not.call((&ignored,))?;
            let count = match w {
                Some(w) => {
                    let picked = op::flatten_using_ints.call((op::masked_select.call((y, kept))?,))?;
                    op::sum.call((op::gather.call((w, 0, picked))?,))?
                }
                None => op::sum.call((kept,))?,
            };
            op::div_Tensor.call((op::sum.call((smooth,))?, count))?
        }
        SUM => op::sum.call((smooth,))?,
        _ => smooth,
    };
    let even = op::mul_Scalar.call((even, Scalar::Float(smoothing / classes as f64)))?;
    let hard = op::mul_Scalar.call((hard, Scalar::Float(1.0 - smoothing)))?;
    Ok(op::add_Tensor.call((hard, even))?.into())
}

/// A number for each class, shaped to multiply scores.
fn by_class(w: &Tensor, scores: &Tensor) -> Result<Tensor> {
    if scores.dim() <= 1 {
        return Ok(w.clone());
    }
    let mut sizes = IntList::from_elem(1, scores.dim());
    sizes[1] = w.sizes()[0];
    op::view.call((w, sizes))
}

fn soft_targets(
    x: &Tensor,
    y: &Tensor,
    w: Option<&Tensor>,
    reduction: i64,
    smoothing: f64,
) -> Result<Tensor> {
    let class_dim = i64::from(x.dim() != 1);
    let classes = x.size(class_dim)?;
    if let Some(w) = w {
        check!(
            w.dim() == 1 && w.numel() == classes,
            "cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight tensor \
             of shape: {:?}",
            w.sizes()
        );
    }
    let input = op::log_softmax_int.call((x, class_dim, x.dtype()))?;
    let target = if smoothing > 0.0 {
        let kept = op::mul_Scalar.call((y, Scalar::Float(1.0 - smoothing)))?;
        op::add_Scalar.call((kept, Scalar::Float(smoothing / classes as f64)))?
    } else {
        y.clone()
    };
    let mut product = op::mul_Tensor.call((&input, target))?;
    if let Some(w) = w {
        product = op::mul_Tensor.call((product, by_class(w, &input)?))?;
    }
    if reduction == 0 {
        return op::neg.call((op::sum_dim_IntList.call((product, [class_dim]))?,));
    }
    let total = op::neg.call((op::sum.call((product,))?,))?;
    if reduction == SUM {
        return Ok(total);
    }
    if x.numel() == 0 {
        return op::fill_Scalar.call((total, Scalar::Float(f64::NAN)));
    }
    op::div_Scalar.call((total, Scalar::Int(x.numel() / classes)))
}

/// Rows and classes of an input of one or two dimensions.
fn rows_of(x: &Tensor) -> Result<(i64, i64)> {
    let s = x.sizes();
    match s {
        [n] if *n != 0 => Ok((1, *n)),
        [] => Ok((1, 1)),
        [b, n] if *n != 0 => Ok((*b, *n)),
        _ => bail!(
            Runtime,
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {s:?}"
        ),
    }
}

/// multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=Mean)
fn multi_margin_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y, p) = (a.tensor(0)?, a.tensor(1)?, a.scalar(2)?);
    check!(p.equals_int(1) || p.equals_int(2), Value; "only p == 1 and p == 2 supported");
    let (rows, classes) = rows_of(x)?;
    check!(
        y.dim() <= 1 && y.numel() == rows,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target \
         size [{rows}], but got {:?}. Input has shape {:?}.",
        y.sizes(),
        x.sizes()
    );
    if let Some(w) = a.opt_tensor(4) {
        check!(
            w.dim() <= 1 && w.numel() == classes,
            "inconsistent weight size, expected {classes} but got {:?}",
            w.sizes()
        );
    }
    let sizes: &[i64] = if a.int(5)? == 0 && y.dim() > 0 { y.sizes() } else { &[] };
    Ok(OutSpec::like(x, sizes).into())
}

fn multi_margin(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let (rows, classes) = rows_of(x)?;
    if !matches!(x.dtype(), DType::Float | DType::Double) {
        return Err(Error::dtype_not_implemented("multi_margin_loss_cpu_kernel", x.dtype()));
    }
    check!(y.dtype() == DType::Long, "expected scalar type Long but found {}", y.dtype().scalar_type_name());
    let (x, y) = (copy::contiguous(x)?, copy::contiguous(y)?);
    let w = match a.opt_tensor(4) {
        Some(w) => Some(copy::contiguous(&copy::convert(w, x.dtype())?)?),
        None => None,
    };
    let (square, margin) = (a.scalar(2)?.equals_int(2), a.scalar(3)?.to_f64());
    let losses = if x.dtype() == DType::Double {
        kernel::multi_margin::<f64>(&x, &y, w.as_ref(), rows, classes, square, margin)?
    } else {
        kernel::multi_margin::<f32>(&x, &y, w.as_ref(), rows, classes, square, margin)?
    };
    deliver(&losses, a.int(5)?, &out[0])
}

/// Writes losses of rows, or what the reduction makes of them.
fn deliver(losses: &[f64], reduction: i64, out: &Tensor) -> Result<()> {
    let each = factory::from_slice(losses)?;
    if reduction == 0 && out.dim() > 0 {
        return copy::copy_into(out, &each);
    }
    let sum: f64 = losses.iter().sum();
    let value = if reduction == MEAN && !losses.is_empty() { sum / losses.len() as f64 } else { sum };
    crate::ops::options::fill(out, Scalar::Float(value))
}

/// multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)
fn multilabel_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    rows_of(x)?;
    check!(
        y.sizes() == x.sizes(),
        "inconsistent target size: {:?} for input of size: {:?}",
        y.sizes(),
        x.sizes()
    );
    let sizes: &[i64] = if a.int(2)? == 0 && x.dim() > 1 { &x.sizes()[..1] } else { &[] };
    Ok(Specs::from_iter([OutSpec::like(x, sizes), OutSpec::like(x, y.sizes())]))
}

fn multilabel(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let (rows, classes) = rows_of(x)?;
    if !matches!(x.dtype(), DType::Float | DType::Double) {
        return Err(Error::dtype_not_implemented("multilabel_margin_loss_forward_out_frame", x.dtype()));
    }
    check!(y.dtype() == DType::Long, "expected scalar type Long but found {}", y.dtype().scalar_type_name());
    let (x, y) = (copy::contiguous(x)?, copy::contiguous(y)?);
    let losses = if x.dtype() == DType::Double {
        kernel::multilabel::<f64>(&x, &y, rows, classes, &out[1])?
    } else {
        kernel::multilabel::<f32>(&x, &y, rows, classes, &out[1])?
    };
    deliver(&losses, a.int(2)?, &out[0])
}
