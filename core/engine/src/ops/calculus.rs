//! Differences, areas and slopes along a dimension, and cross products: `diff`, `trapezoid`, `cumulative_trapezoid`,
//! `gradient`, `cross`.

use super::copy::contiguous;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::dtype::{Convert, Wide};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, Result, Scalar, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::diff, diff);
    for id in [op::trapezoid_x, op::trapz_x] {
        r.implicit(id, |a| area(a, Step::At(a.tensor(1)?), a.int(2)?, false));
    }
    r.implicit(op::trapezoid_dx, |a| area(a, Step::Even(a.scalar(1)?), a.int(2)?, false))
        .implicit(op::trapz_dx, |a| area(a, Step::Even(Scalar::Float(a.double(1)?)), a.int(2)?, false))
        .implicit(op::cumulative_trapezoid_x, |a| area(a, Step::At(a.tensor(1)?), a.int(2)?, true))
        .implicit(op::cumulative_trapezoid_dx, |a| area(a, Step::Even(a.scalar(1)?), a.int(2)?, true));
    r.implicit(op::gradient_scalarint, |a| {
        let dims = dims(a.tensor(0)?, a.opt_int(2)?, None);
        let step = a.opt_scalar(1)?.unwrap_or(Scalar::Int(1));
        even(a.tensor(0)?, &vec![step; dims.len()], &dims, a.int(3)?)
    })
    .implicit(op::gradient_scalararray, |a| {
        let dims = a.int_list(2)?;
        even(a.tensor(0)?, &vec![a.scalar(1)?; dims.len()], dims, a.int(3)?)
    })
    .implicit(op::gradient_array, |a| {
        let dims = a.int_list(1)?;
        even(a.tensor(0)?, &vec![Scalar::Int(1); dims.len()], dims, a.int(2)?)
    })
    .implicit(op::gradient_scalarrayint, |a| {
        let steps = scalars(a, 1)?;
        check_list(a, steps.len())?;
        even(a.tensor(0)?, &steps, &dims(a.tensor(0)?, a.opt_int(2)?, Some(steps.len())), a.int(3)?)
    })
    .implicit(op::gradient_scalarrayarray, |a| even(a.tensor(0)?, &scalars(a, 1)?, a.int_list(2)?, a.int(3)?))
    .implicit(op::gradient_tensorarrayint, |a| {
        let places = a.tensor_list(1)?;
        check_list(a, places.len())?;
        uneven(a.tensor(0)?, places, &dims(a.tensor(0)?, a.opt_int(2)?, Some(places.len())), a.int(3)?)
    })
    .implicit(op::gradient_tensorarray, |a| {
        uneven(a.tensor(0)?, a.tensor_list(1)?, a.int_list(2)?, a.int(3)?)
    });
    r.structured(op::linalg_cross, cross_meta, cross);
    r.implicit(op::cross, |a| {
        let (x, y) = (a.tensor(0)?, a.tensor(1)?);
        let d = match a.opt_int(2)? {
            Some(d) => d,
            None => {
                crate::warn::warn(
                    crate::warn::Category::User,
                    "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim \
                     explicitly or simply use torch.linalg.cross.\nThe default value of dim will change to agree with \
                     that of linalg.cross in a future release.",
                )?;
                let Some(d) = x.sizes().iter().position(|s| *s == 3) else {
                    bail!(Runtime, "no dimension of size 3 in input");
                };
                d as i64
            }
        };
        Ok(op::linalg_cross.call((x, y, d))?.into())
    });
}

/// `t` from `start` to `end` along a dimension.
fn slice(t: &Tensor, dim: i64, start: i64, end: Option<i64>) -> Result<Tensor> {
    op::slice_Tensor.call((t, dim, start, end))
}

/// diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor
fn diff(a: Args<'_>) -> Result<Returns> {
    let (t, n, dim) = (a.tensor(0)?, a.int(1)?, a.int(2)?);
    check!(t.dim() > 0, "diff expects input to be at least one-dimensional");
    let d = shape::wrap_dim(dim, t.dim())?;
    check!(n >= 0, "order must be non-negative but got {n}");
    for other in [a.opt_tensor(3), a.opt_tensor(4)].into_iter().flatten() {
        check!(other.dim() == t.dim(), "diff expects prepend or append to be the same dimension as input");
        for i in 0..t.dim() {
            check!(
                i == d || other.sizes()[i] == t.sizes()[i],
                "diff expects the shape of tensor to prepend or append to match that of input except along the \
                 differencing dimension; input.size({i}) = {}, but got tensor.size({i}) = {}",
                t.sizes()[i],
                other.sizes()[i]
            );
        }
    }
    if n == 0 {
        return Ok(op::clone.call((t,))?.into());
    }
    let parts: Vec<Tensor> =
        [a.opt_tensor(3), Some(t), a.opt_tensor(4)].into_iter().flatten().cloned().collect();
    let mut v = if parts.len() > 1 { op::cat.call((parts, d))? } else { t.clone() };
    for _ in 0..n.min(v.sizes()[d]) {
        let rest = v.sizes()[d] - 1;
        let (left, right) = (op::narrow.call((&v, d, 0, rest))?, op::narrow.call((&v, d, 1, rest))?);
        v = if v.dtype() == DType::Bool {
            op::logical_xor.call((right, left))?
        } else {
            op::sub_Tensor.call((right, left))?
        };
    }
    Ok(v.into())
}

/// How far samples are apart.
enum Step<'a> {
    Even(Scalar),
    At(&'a Tensor),
}

/// The area under samples, in all or up to each of them.
fn area(a: Args<'_>, step: Step<'_>, dim: i64, running: bool) -> Result<Returns> {
    let y = a.tensor(0)?;
    let name = if running { "cumulative_trapezoid" } else { "trapezoid" };
    let d = shape::wrap_dim(dim, y.dim())?;
    if !running && y.size(dim)? == 0 {
        let mut sizes = IntList::from_slice(y.sizes());
        sizes.remove(d);
        return Ok(op::zeros.call((sizes, y.dtype(), (), y.device()))?.into());
    }
    if let Step::Even(dx) = step {
        check!(y.dtype() != DType::Bool, NotImplemented; "{name}: received a bool input for `y`, but bool is not supported");
        check!(!(dx.is_complex() || dx.is_bool()), "{name}: Currently, we only support dx as a real number.");
    } else if let Step::At(x) = step {
        check!(
            x.dtype() != DType::Bool && y.dtype() != DType::Bool,
            NotImplemented;
            "{name}: received a bool input for `x` or `y`, but bool is not supported"
        );
    }
    let d = d as i64;
    let both = || op::add_Tensor.call((slice(y, d, 0, Some(-1))?, slice(y, d, 1, None)?));
    Ok(match step {
        Step::Even(dx) => {
            let dx = dx.to_f64();
            if running {
                let steps = op::mul_Scalar.call((both()?, dx / 2.0))?;
                op::cumsum.call((steps, d))?
            } else {
                let ends = op::add_Tensor
                    .call((op::select_int.call((y, d, 0))?, op::select_int.call((y, d, -1))?))?;
                let ends = op::mul_Scalar.call((ends, 0.5))?;
                let inside = op::sub_Tensor.call((op::sum_dim_IntList.call((y, [d], false))?, ends))?;
                op::mul_Scalar.call((inside, dx))?
            }
        }
        Step::At(x) => {
            let x = if x.dim() == 1 {
                check!(x.size(0)? == y.size(d)?, "{name}: There must be one `x` value for each sample point");
                let mut sizes = vec![1; y.dim()];
                sizes[d as usize] = x.size(0)?;
                op::view.call((x, sizes))?
            } else if x.dim() < y.dim() {
                let mut sizes = vec![1; y.dim() - x.dim()];
                sizes.extend(x.sizes());
                op::view.call((x, sizes))?
            } else {
                x.clone()
            };
            let dx = op::sub_Tensor.call((slice(&x, d, 1, None)?, slice(&x, d, 0, Some(-1))?))?;
            let parts = op::mul_Tensor.call((both()?, dx))?;
            let sum = if running {
                op::cumsum.call((parts, d))?
            } else {
                op::sum_dim_IntList.call((parts, [d], false))?
            };
            op::div_Scalar.call((sum, 2.0))?
        }
    }
    .into())
}

fn scalars(a: Args<'_>, i: usize) -> Result<Vec<Scalar>> {
    match &a.0[i] {
        crate::ivalue::IValue::ScalarList(v) => Ok(v.clone()),
        crate::ivalue::IValue::IntList(v) => Ok(v.iter().map(|v| Scalar::Int(*v)).collect()),
        crate::ivalue::IValue::DoubleList(v) => Ok(v.iter().map(|v| Scalar::Float(*v)).collect()),
        crate::ivalue::IValue::List(v) => v.iter().map(|v| v.scalar()).collect(),
        other => bail!(Internal, "expected List[Scalar] in a boxed call but found {}", other.kind()),
    }
}

/// The dimensions of a gradient: the one given, the first few, or all.
fn dims(t: &Tensor, dim: Option<i64>, n: Option<usize>) -> Vec<i64> {
    match dim {
        Some(d) => vec![d],
        None => (0..n.unwrap_or(t.dim()) as i64).collect(),
    }
}

/// A list of spacings goes with one dimension that is given, or with all.
fn check_list(a: Args<'_>, n: usize) -> Result<()> {
    let t = a.tensor(0)?;
    check!(
        !a.is_none(2) || n == t.dim(),
        "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = {}', since \
         dim argument was not given, but got a list of length {n}",
        t.dim()
    );
    Ok(())
}

fn check_gradient(t: &Tensor, steps: usize, dims: &[i64], order: i64) -> Result<()> {
    check!(t.dtype() != DType::Byte, NotImplemented; "torch.gradient does not support uint8 input.");
    check!(
        steps == dims.len(),
        "torch.gradient expected spacing to be unspecified, a scalar, or it's spacing and dim arguments to have the same \
         length, but got a spacing argument of length {steps} and a dim argument of length {}.",
        dims.len()
    );
    check!(order == 1 || order == 2, "torch.gradient only supports edge_order=1 and edge_order=2.");
    shape::dim_mask(Some(dims), t.dim(), true)?;
    for d in dims {
        check!(
            t.size(*d)? > order,
            "torch.gradient expected each dimension size to be at least edge_order+1"
        );
    }
    Ok(())
}

/// `a*x + b*y + …`
fn combined(terms: &[(&Tensor, f64)]) -> Result<Tensor> {
    let mut sum: Option<Tensor> = None;
    for (t, k) in terms {
        let v = op::mul_Scalar.call((*t, *k))?;
        sum = Some(match sum {
            Some(s) => op::add_Tensor.call((s, v))?,
            None => v,
        });
    }
    match sum {
        Some(s) => Ok(s),
        None => bail!(Internal, "a sum of nothing"),
    }
}

/// Slopes of evenly spaced samples.
fn even(t: &Tensor, steps: &[Scalar], dims: &[i64], order: i64) -> Result<Returns> {
    check_gradient(t, steps.len(), dims, order)?;
    let mut out = Vec::new();
    for (step, &d) in steps.iter().zip(dims) {
        let at = |i: i64| -> Result<Tensor> {
            let n = t.size(d)?;
            op::narrow.call((t, d, if i < 0 { i + n } else { i }, 1))
        };
        let over = |v: Tensor| op::div_Scalar.call((v, *step));
        let middle = op::sub_Tensor.call((slice(t, d, 2, None)?, slice(t, d, 0, Some(-2))?))?;
        let middle = op::div_Scalar.call((over(middle)?, 2))?;
        let (first, last) = if order == 1 {
            (op::sub_Tensor.call((at(1)?, at(0)?))?, op::sub_Tensor.call((at(-1)?, at(-2)?))?)
        } else {
            (
                combined(&[(&at(0)?, -1.5), (&at(1)?, 2.0), (&at(2)?, -0.5)])?,
                combined(&[(&at(-1)?, 1.5), (&at(-2)?, -2.0), (&at(-3)?, 0.5)])?,
            )
        };
        out.push(op::cat.call((vec![over(first)?, middle, over(last)?], d))?);
    }
    Ok(out.into())
}

/// Slopes of samples at given places.
fn uneven(t: &Tensor, places: &[Tensor], dims: &[i64], order: i64) -> Result<Returns> {
    check_gradient(t, places.len(), dims, order)?;
    let mul = |a: &Tensor, b: &Tensor| op::mul_Tensor.call((a, b));
    let add = |a: &Tensor, b: &Tensor| op::add_Tensor.call((a, b));
    let sub = |a: &Tensor, b: &Tensor| op::sub_Tensor.call((a, b));
    let div = |a: &Tensor, b: &Tensor| op::div_Tensor.call((a, b));
    let neg = |a: &Tensor| op::neg.call((a,));
    let mut out = Vec::new();
    for (x, &d) in places.iter().zip(dims) {
        let n = t.size(d)?;
        check!(
            x.dim() == 1 && x.numel() == n,
            "torch.gradient expected each element of spacing to have one dimension and as many elements as the dimension \
             of the input"
        );
        let at = |i: i64| op::narrow.call((t, d, if i < 0 { i + n } else { i }, 1));
        let h = op::diff.call((x,))?;
        let step = |i: i64| op::select_int.call((&h, 0, i));
        let (h1, h2) = (slice(&h, 0, 0, Some(-1))?, slice(&h, 0, 1, None)?);
        let both = add(&h1, &h2)?;
        let mut sizes = vec![1; t.dim()];
        sizes[shape::wrap_dim(d, t.dim())?] = -1;
        let shaped = |v: Tensor| op::reshape.call((v, sizes.clone()));
        let a = shaped(div(&neg(&h2)?, &mul(&h1, &both)?)?)?;
        let b = shaped(div(&sub(&h2, &h1)?, &mul(&h1, &h2)?)?)?;
        let c = shaped(div(&h1, &mul(&h2, &both)?)?)?;
        let middle = add(
            &add(&mul(&a, &slice(t, d, 0, Some(-2))?)?, &mul(&b, &slice(t, d, 1, Some(-1))?)?)?,
            &mul(&c, &slice(t, d, 2, None)?)?,
        )?;
        let (first, last) = if order == 1 {
            (div(&sub(&at(1)?, &at(0)?)?, &step(0)?)?, div(&sub(&at(-1)?, &at(-2)?)?, &step(-1)?)?)
        } else {
            let edge = |p: Tensor, q: Tensor, i: [i64; 3], sign: i64| -> Result<Tensor> {
                // `p` is the step at the edge, `q` the next one.
                let sum = add(&p, &q)?;
                let twice = add(&op::mul_Scalar.call((&p, 2))?, &q)?;
                let near = div(&twice, &mul(&p, &sum)?)?;
                let mid = div(&sum, &mul(&p, &q)?)?;
                let far = div(&p, &mul(&q, &sum)?)?;
                let v =
                    sub(&add(&mul(&near, &at(i[0])?)?, &mul(&far, &at(i[2])?)?)?, &mul(&mid, &at(i[1])?)?)?;
                if sign < 0 { neg(&v) } else { Ok(v) }
            };
            (edge(step(0)?, step(1)?, [0, 1, 2], -1)?, edge(step(-1)?, step(-2)?, [-1, -2, -3], 1)?)
        };
        out.push(op::cat.call((vec![first, middle, last], d))?);
    }
    Ok(out.into())
}

/// linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor
fn cross_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y, dim) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?);
    check!(x.dim() == y.dim(), "linalg.cross: inputs must have the same number of dimensions.");
    check!(
        x.size(dim)? == 3 && y.size(dim)? == 3,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        x.size(dim)?,
        y.size(dim)?
    );
    check!(
        x.dtype() == y.dtype(),
        "linalg.cross: Expected all tensors to have the same dtype, got {} and {}",
        x.dtype(),
        y.dtype()
    );
    Ok(OutSpec::like(x, shape::broadcast(x.sizes(), y.sizes())?).into())
}

fn cross(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let o = &out[0];
    let d = shape::wrap_dim(a.int(2)?, o.dim())?;
    let wide = |t: &Tensor| -> Result<Tensor> {
        let (sizes, strides) = shape::expand_strides(t.sizes(), t.strides(), o.sizes())?;
        let e = t.alias_with(sizes, strides, t.storage_offset());
        e.set_key_set(t.key_set());
        contiguous(&e)
    };
    let (x, y) = (wide(a.tensor(0)?)?, wide(a.tensor(1)?)?);
    let inner: usize = o.sizes()[d + 1..].iter().product::<i64>() as usize;
    macro_rules! run {
        ($T:ty, $f:expr) => {{
            // SAFETY: contiguous tensors of T, the last not read.
            let (x, y, o) = unsafe { (x.as_slice::<$T>(), y.as_slice::<$T>(), o.as_mut_slice::<$T>()) };
            for (k, o) in o.iter_mut().enumerate() {
                let (block, along) = (k / (3 * inner) * 3, k / inner % 3);
                let at = |i: usize| (block + i % 3) * inner + k % inner;
                let (p, q) = (at(along + 1), at(along + 2));
                *o = $f(x[p], y[q], x[q], y[p]);
            }
        }};
    }
    if o.numel() == 0 {
        return Ok(());
    }
    match o.dtype() {
        dt if dt.is_complex() => {
            dispatch!("cross", dt, complex, T => run!(T, |a: T, b: T, c: T, d: T| a * b - c * d))
        }
        dt if dt.is_integral(false) => dispatch!("cross", dt, integral, T => {
            run!(T, |a: T, b: T, c: T, d: T| a.wrapping_mul(b).wrapping_sub(c.wrapping_mul(d)))
        }),
        dt => dispatch!("cross", dt, floating, T => run!(T, |a: T, b: T, c: T, d: T| {
            let product = |x: T, y: T| -> f64 {
                match (x.to_wide(), y.to_wide()) {
                    (Wide::F(x), Wide::F(y)) => x * y,
                    _ => f64::NAN,
                }
            };
            T::from_wide(Wide::F(product(a, b) - product(c, d)))
        })),
    }
    Ok(())
}
