//! Matrix and vector products: `mm`, `bmm`, `addmm`, `baddbmm`, `mv`, `addmv`, `dot`.

use crate::cpu::gemm::{Matrix, product};
use crate::dispatch::{OutSpec, Registry, Specs};
use crate::ivalue::Args;
use crate::ops::copy;
use crate::tensor::{factory, shape};
use crate::{Device, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::mm, mm_meta, mm)
        .structured(op::addmm, addmm_meta, addmm)
        .structured(op::bmm, bmm_meta, bmm)
        .structured(op::baddbmm, baddbmm_meta, baddbmm)
        .structured(op::addbmm, addbmm_meta, addbmm)
        .structured(op::mv, mv_meta, mv)
        .structured(op::addmv, addmv_meta, addmv)
        .structured(op::dot, dot_meta, dot)
        .structured(op::vdot, dot_meta, vdot)
        .structured(op::addr, addr_meta, addr);
}

const ONE: Scalar = Scalar::Int(1);
const ZERO: Scalar = Scalar::Int(0);

/// The tensor with its conjugate and negative bits carried out.
pub(crate) fn resolved(t: &Tensor) -> Result<Tensor> {
    if t.is_conj() || t.is_neg() { copy::contiguous(t) } else { Ok(t.clone()) }
}

/// A matrix, or with `batched` a batch of them.
fn matrix(t: &Tensor, batched: bool) -> Matrix {
    let s = t.strides();
    let o = usize::from(batched);
    Matrix { ptr: t.data_ptr(), rows: s[o], cols: s[o + 1], batch: if batched { s[0] } else { 0 } }
}

/// `out = alpha * a @ b + beta * out` for matrices or batches of them.
///
/// # Errors
/// A dtype without products.
pub(crate) fn multiply(
    name: &str,
    out: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<()> {
    let (a, b) = (&resolved(a)?, &resolved(b)?);
    let batched = out.dim() == 3;
    let o = usize::from(batched);
    let (m, n, k) = (out.sizes()[o], out.sizes()[o + 1], a.sizes()[o + 1]);
    let batch = if batched { out.sizes()[0] } else { 1 };
    // SAFETY: shapes were checked by the shape function; `structured` keeps the result apart from the arguments.
    unsafe {
        product(
            name,
            out.dtype(),
            [batch, m, n, k],
            alpha,
            matrix(a, batched),
            matrix(b, batched),
            beta,
            matrix(out, batched),
        )
    }
}

fn check_mm(name: &str, first: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    check!(a.dim() == 2, "{name}: {first} must be a matrix, got {}-D tensor", a.dim());
    check!(b.dim() == 2, "{name}: mat2 must be a matrix, got {}-D tensor", b.dim());
    check!(
        a.sizes()[1] == b.sizes()[0],
        "{name}: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.sizes()[0],
        a.sizes()[1],
        b.sizes()[0],
        b.sizes()[1]
    );
    Ok(())
}

fn check_mm_dtypes(a: &Tensor, b: &Tensor) -> Result<()> {
    check!(
        a.dtype() == b.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        a.dtype().torch_name_cpp(),
        b.dtype().torch_name_cpp()
    );
    Ok(())
}

/// mm(Tensor self, Tensor mat2) -> Tensor
fn mm_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check_mm("mm", "self", x, y)?;
    check_mm_dtypes(x, y)?;
    Ok(OutSpec::like(x, &[x.sizes()[0], y.sizes()[1]][..]).into())
}

fn mm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    multiply("addmm_impl_cpu_", &out[0], a.tensor(0)?, a.tensor(1)?, ZERO, ONE)
}

/// Copies the addend of a product into its result, unless `beta` is zero.
fn start(out: &Tensor, addend: &Tensor, beta: Scalar) -> Result<()> {
    if beta.equals_int(0) { Ok(()) } else { copy::copy_into(out, &resolved(addend)?) }
}

/// addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn addmm_meta(a: Args<'_>) -> Result<Specs> {
    let (t, x, y) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    check_mm("addmm", "mat1", x, y)?;
    check!(
        t.dtype() == y.dtype(),
        "self and mat2 must have the same dtype, but got {} and {}",
        t.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    let sizes = [x.sizes()[0], y.sizes()[1]];
    shape::expand_strides(t.sizes(), t.strides(), &sizes)?;
    check_mm_dtypes(x, y)?;
    Ok(OutSpec::like(t, &sizes[..]).into())
}

fn addmm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    start(&out[0], a.tensor(0)?, a.scalar(3)?)?;
    multiply("addmm_impl_cpu_", &out[0], a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)
}

fn check_bmm(x: &Tensor, y: &Tensor) -> Result<[i64; 3]> {
    check!(x.dim() == 3, "batch1 must be a 3D tensor");
    check!(y.dim() == 3, "batch2 must be a 3D tensor");
    let (s, t) = (x.sizes(), y.sizes());
    check!(
        t[0] == s[0] && t[1] == s[2],
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        s[0],
        s[2],
        t[0],
        t[1]
    );
    Ok([s[0], s[1], t[2]])
}

/// bmm(Tensor self, Tensor mat2) -> Tensor
fn bmm_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let sizes = check_bmm(x, y)?;
    check!(
        x.dtype() == y.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    Ok(OutSpec::like(x, &sizes[..]).into())
}

fn bmm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    multiply("bmm", &out[0], a.tensor(0)?, a.tensor(1)?, ZERO, ONE)
}

fn check_addend(t: &Tensor, x: &Tensor, y: &Tensor) -> Result<()> {
    check!(
        t.dtype() == x.dtype() && t.dtype() == y.dtype(),
        "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
        t.dtype().torch_name_cpp(),
        x.dtype().torch_name_cpp(),
        y.dtype().torch_name_cpp()
    );
    Ok(())
}

/// baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn baddbmm_meta(a: Args<'_>) -> Result<Specs> {
    let (t, x, y) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let sizes = check_bmm(x, y)?;
    shape::expand_strides(t.sizes(), t.strides(), &sizes)?;
    check_addend(t, x, y)?;
    Ok(OutSpec::like(t, &sizes[..]).into())
}

fn baddbmm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    start(&out[0], a.tensor(0)?, a.scalar(3)?)?;
    multiply("baddbmm", &out[0], a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)
}

/// addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn addbmm_meta(a: Args<'_>) -> Result<Specs> {
    let (t, x, y) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let [_, m, n] = check_bmm(x, y)?;
    shape::expand_strides(t.sizes(), t.strides(), &[m, n])?;
    check_addend(t, x, y)?;
    Ok(OutSpec::like(t, &[m, n][..]).into())
}

fn addbmm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y, mut beta) = (a.tensor(1)?, a.tensor(2)?, a.scalar(3)?);
    start(&out[0], a.tensor(0)?, beta)?;
    // Without products the addend alone remains, scaled.
    if x.sizes()[0] == 0 {
        let (x, y) = (empty_matrix(x, [out[0].sizes()[0], 0])?, empty_matrix(x, [0, out[0].sizes()[1]])?);
        return multiply("addmm_impl_cpu_", &out[0], &x, &y, beta, ONE);
    }
    for i in 0..x.sizes()[0] {
        multiply("addmm_impl_cpu_", &out[0], &select0(x, i), &select0(y, i), beta, a.scalar(4)?)?;
        beta = ONE;
    }
    Ok(())
}

fn empty_matrix(like: &Tensor, sizes: [i64; 2]) -> Result<Tensor> {
    factory::empty(&sizes, like.dtype(), Device::CPU)
}

/// Element `i` of the first dimension.
pub(crate) fn select0(t: &Tensor, i: i64) -> Tensor {
    let offset = t.storage_offset() + i * t.strides()[0];
    t.alias_with(t.sizes()[1..].into(), t.strides()[1..].into(), offset)
}

/// A vector as a matrix of one column.
fn column(t: &Tensor) -> Tensor {
    t.alias_with([t.sizes()[0], 1][..].into(), [t.strides()[0], 1][..].into(), t.storage_offset())
}

fn check_mv(t: &Tensor, x: &Tensor, v: &Tensor) -> Result<()> {
    check!(
        x.dim() == 2 && v.dim() == 1 && t.dim() <= 1,
        "vector + matrix @ vector expected, got {}, {}, {}",
        t.dim(),
        x.dim(),
        v.dim()
    );
    check!(
        x.sizes()[1] == v.sizes()[0] && (t.numel() == x.sizes()[0] || t.numel() == 1),
        "size mismatch, got input ({}), mat ({}x{}), vec ({})",
        t.sizes().first().copied().unwrap_or(1),
        x.sizes()[0],
        x.sizes()[1],
        v.sizes()[0]
    );
    check!(
        t.dtype() == x.dtype() && x.dtype() == v.dtype(),
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        t.dtype().scalar_type_name(),
        x.dtype().scalar_type_name(),
        v.dtype().scalar_type_name()
    );
    Ok(())
}

/// mv(Tensor self, Tensor vec) -> Tensor
fn mv_meta(a: Args<'_>) -> Result<Specs> {
    let (x, v) = (a.tensor(0)?, a.tensor(1)?);
    // The result stands for the addend in upstream's messages.
    let rows = x.sizes().first().copied().unwrap_or(1);
    check!(
        x.dim() == 2 && v.dim() == 1,
        "vector + matrix @ vector expected, got 1, {}, {}",
        x.dim(),
        v.dim()
    );
    check!(
        x.sizes()[1] == v.sizes()[0],
        "size mismatch, got input ({rows}), mat ({rows}x{}), vec ({})",
        x.sizes()[1],
        v.sizes()[0]
    );
    check!(
        x.dtype() == v.dtype(),
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        v.dtype().scalar_type_name(),
        x.dtype().scalar_type_name(),
        v.dtype().scalar_type_name()
    );
    Ok(OutSpec::like(x, &[rows][..]).into())
}

fn mv(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    multiply("addmv_impl_cpu", &column(&out[0]), a.tensor(0)?, &column(&resolved(a.tensor(1)?)?), ZERO, ONE)
}

/// addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn addmv_meta(a: Args<'_>) -> Result<Specs> {
    let (t, x, v) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    check_mv(t, x, v)?;
    Ok(OutSpec::like(x, &[x.sizes()[0]][..]).into())
}

fn addmv(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    start(&out[0], a.tensor(0)?, a.scalar(3)?)?;
    let v = resolved(a.tensor(2)?)?;
    multiply("addmv_impl_cpu", &column(&out[0]), a.tensor(1)?, &column(&v), a.scalar(3)?, a.scalar(4)?)
}

/// dot(Tensor self, Tensor tensor) -> Tensor
fn dot_meta(a: Args<'_>) -> Result<Specs> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        x.dim() == 1 && y.dim() == 1,
        "1D tensors expected, but got {}D and {}D tensors",
        x.dim(),
        y.dim()
    );
    check!(
        x.dtype() == y.dtype(),
        "dot : expected both vectors to have same dtype, but found {} and {}",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    check!(
        x.numel() == y.numel(),
        "inconsistent tensor size, expected tensor {:?} and src {:?} to have the same number of elements, but got {} and \
         {} elements respectively",
        x.sizes(),
        y.sizes(),
        x.numel(),
        y.numel()
    );
    Ok(OutSpec::like(x, &[][..]).into())
}

fn dot_of(name: &str, x: &Tensor, y: &Tensor, out: &Tensor) -> Result<()> {
    let (x, y) = (resolved(x)?, resolved(y)?);
    let row = x.alias_with([1, x.numel()][..].into(), [1, x.strides()[0]][..].into(), x.storage_offset());
    let cell = out.alias_with([1, 1][..].into(), [1, 1][..].into(), out.storage_offset());
    multiply(name, &cell, &row, &column(&y), ZERO, ONE)
}

fn dot(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    dot_of("dot", a.tensor(0)?, a.tensor(1)?, &out[0])
}

/// vdot(Tensor self, Tensor other) -> Tensor
fn vdot(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let x = a.tensor(0)?;
    if !x.dtype().is_complex() {
        return dot_of("dot", x, a.tensor(1)?, &out[0]);
    }
    let conj = x.alias_with(x.sizes().into(), x.strides().into(), x.storage_offset());
    conj.set_key(crate::dispatch::DispatchKey::Conjugate, !x.is_conj());
    dot_of("vdot", &conj, a.tensor(1)?, &out[0])
}

/// addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn addr_meta(a: Args<'_>) -> Result<Specs> {
    let (t, x, y) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    check!(x.dim() == 1, "addr: Expected 1-D argument vec1, but got {}-D", x.dim());
    check!(y.dim() == 1, "addr: Expected 1-D argument vec2, but got {}-D", y.dim());
    let sizes = [x.sizes()[0], y.sizes()[0]];
    shape::expand_strides(t.sizes(), t.strides(), &sizes)?;
    check!(
        t.dtype() == x.dtype() && x.dtype() == y.dtype(),
        NotImplemented;
        "addr of {}, {} and {} is not implemented on the CPU: the dtypes differ",
        t.dtype().torch_name(),
        x.dtype().torch_name(),
        y.dtype().torch_name()
    );
    Ok(OutSpec::like(t, &sizes[..]).into())
}

fn addr(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    start(&out[0], a.tensor(0)?, a.scalar(3)?)?;
    let (x, y) = (resolved(a.tensor(1)?)?, resolved(a.tensor(2)?)?);
    let row = y.alias_with([1, y.numel()][..].into(), [1, y.strides()[0]][..].into(), y.storage_offset());
    multiply("addr", &out[0], &column(&x), &row, a.scalar(3)?, a.scalar(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn t(values: &[f32], sizes: &[i64]) -> Tensor {
        crate::ops::register_all();
        let x = factory::from_slice(values).unwrap();
        x.set_sizes_contiguous(sizes);
        x
    }
    fn read(x: &Tensor) -> Vec<f32> {
        // SAFETY: f32 results of the tests below, row-major.
        unsafe { x.as_slice::<f32>() }.to_vec()
    }

    #[test]
    fn products() {
        let a = t(&[1., 2., 3., 4., 5., 6.], &[2, 3]);
        let b = t(&[1., 0., 2., 1., 0., 3.], &[3, 2]);
        assert_eq!(read(&op::mm.call((&a, &b)).unwrap()), [5., 11., 14., 23.]);
        let bias = t(&[10., 20.], &[2]);
        assert_eq!(read(&op::addmm.call((&bias, &a, &b)).unwrap()), [15., 31., 24., 43.]);
        assert_eq!(
            read(&op::addmm.call((&bias, &a, &b, Scalar::Float(0.5), Scalar::Int(2))).unwrap()),
            [15., 32., 33., 56.]
        );
        let v = t(&[1., -1., 2.], &[3]);
        assert_eq!(read(&op::mv.call((&a, &v)).unwrap()), [5., 11.]);
        assert_eq!(read(&op::dot.call((&v, &v)).unwrap()), [6.]);
        let (a3, b3) = (t(&[1., 2., 3., 4., 5., 6.], &[2, 1, 3]), t(&[1., 0., 2., 1., 1., 1.], &[2, 3, 1]));
        assert_eq!(read(&op::bmm.call((&a3, &b3)).unwrap()), [7., 15.]);
    }

    #[test]
    fn sums() {
        let a = t(&[1., 2., 3., 4., 5., 6.], &[2, 3]);
        assert_eq!(read(&op::sum.call((&a,)).unwrap()), [21.]);
        assert_eq!(read(&op::sum_dim_IntList.call((&a, [0])).unwrap()), [5., 7., 9.]);
        assert_eq!(read(&op::sum_dim_IntList.call((&a, [1], true)).unwrap()), [6., 15.]);
        assert_eq!(read(&op::mean.call((&a,)).unwrap()), [3.5]);
        assert_eq!(read(&op::var_correction.call((&a,)).unwrap()), [3.5]);
        assert_eq!(read(&op::linalg_vector_norm.call((&a, Scalar::Int(1))).unwrap()), [21.]);
        let n = op::count_nonzero.call((&a,)).unwrap();
        assert_eq!(n.dtype(), DType::Long);
        let big = t(&vec![0.1; 1 << 20], &[1 << 10, 1 << 10]);
        assert!((read(&op::sum.call((&big,)).unwrap())[0] - 104857.6).abs() < 0.05);
        assert!((read(&op::sum_dim_IntList.call((&big, [0])).unwrap())[5] - 102.4).abs() < 1e-4);
    }

    #[test]
    fn compositions() {
        let a = t(&[1., 2., 3., 4., 5., 6., 7., 8.], &[2, 2, 2]);
        let w = t(&[1., 2., 0., 1.], &[2, 2]);
        let bias = t(&[0.5, -0.5], &[2]);
        let y = op::linear.call((&a, &w, &bias)).unwrap();
        assert_eq!(y.sizes(), [2, 2, 2]);
        assert_eq!(read(&y), [5.5, 1.5, 11.5, 3.5, 17.5, 5.5, 23.5, 7.5]);
        // A matrix against a batch, a batch against a vector, batches that broadcast.
        assert_eq!(read(&op::matmul.call((&w, &a)).unwrap()), [7., 10., 3., 4., 19., 22., 7., 8.]);
        assert_eq!(read(&op::matmul.call((&a, t(&[1., 1.], &[2]))).unwrap()), [3., 7., 11., 15.]);
        let wide = op::matmul.call((&a, t(&[1., 0., 0., 1.], &[1, 2, 2]))).unwrap();
        assert_eq!(read(&wide), read(&a));
        assert_eq!(read(&op::outer.call((&bias, &bias)).unwrap()), [0.25, -0.25, -0.25, 0.25]);
    }

    #[test]
    fn refusals() {
        let (a, b) = (t(&[0.; 6], &[2, 3]), t(&[0.; 20], &[4, 5]));
        let e = op::mm.call((&a, &b)).unwrap_err();
        assert_eq!(e.message, "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    }
}
