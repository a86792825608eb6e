//! Matrix products of any element type, by way of the kernels crate.

use crate::{Complex, DType, Error, Result, Scalar};
use torchnative_kernels::gemm::{self, Mat, MatMut};

/// A batch of matrices in memory; strides count elements.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub ptr: *mut u8,
    pub rows: i64,
    pub cols: i64,
    pub batch: i64,
}

impl Matrix {
    fn read<T>(self) -> Mat<T> {
        Mat::new(self.ptr as *const T, self.rows as isize, self.cols as isize)
    }
    fn write<T>(self) -> MatMut<T> {
        MatMut::new(self.ptr as *mut T, self.rows as isize, self.cols as isize)
    }
    /// The matrix `i` of the batch.
    fn nth(self, i: usize, itemsize: usize) -> Matrix {
        Matrix { ptr: self.ptr.wrapping_offset(i as isize * self.batch as isize * itemsize as isize), ..self }
    }
}

/// `c = alpha * a @ b + beta * c` for each matrix of a batch; `c` is not read when `beta` is zero.
///
/// # Errors
/// A dtype without products.
///
/// # Safety
/// The matrices must lie in live memory of `dtype`, and `c` must not overlap the others.
pub(crate) unsafe fn product(
    name: &str,
    dtype: DType,
    [batch, m, n, k]: [i64; 4],
    alpha: Scalar,
    a: Matrix,
    b: Matrix,
    beta: Scalar,
    c: Matrix,
) -> Result<()> {
    let (batch, m, n, k) = (batch as usize, m as usize, n as usize, k as usize);
    let size = dtype.itemsize();
    let offsets = |i: usize| {
        let i = i as isize;
        (i * a.batch as isize, i * b.batch as isize, i * c.batch as isize)
    };
    macro_rules! real {
        ($t:ty, $acc:ty) => {{
            let (alpha, beta): ($acc, $acc) = (alpha.to()?, beta.to()?);
            // SAFETY: the caller's contract.
            unsafe {
                gemm::gemm_batched::<$t>(batch, m, n, k, alpha, a.read(), b.read(), beta, c.write(), offsets)
            }
        }};
    }
    macro_rules! integer {
        ($t:ty) => {
            for i in 0..batch {
                let (a, b, c) = (a.nth(i, size), b.nth(i, size), c.nth(i, size));
                let (alpha, beta) = (alpha.to_i64(), beta.to_i64());
                // SAFETY: the caller's contract.
                unsafe { gemm::gemm_integer::<$t>(m, n, k, alpha, a.read(), b.read(), beta, c.write()) }
            }
        };
    }
    macro_rules! complex {
        ($t:ty) => {{
            let (x, y): (Complex<$t>, Complex<$t>) = (alpha.to()?, beta.to()?);
            for i in 0..batch {
                let (a, b, c) = (a.nth(i, size), b.nth(i, size), c.nth(i, size));
                // SAFETY: the caller's contract; a complex number is its two parts.
                unsafe {
                    gemm::gemm_complex::<$t>(
                        m,
                        n,
                        k,
                        [x.re, x.im],
                        a.read(),
                        false,
                        b.read(),
                        false,
                        [y.re, y.im],
                        c.write(),
                    )
                }
            }
        }};
    }
    match dtype {
        DType::Float => real!(f32, f32),
        DType::Double => real!(f64, f64),
        DType::Half => real!(half::f16, f32),
        DType::BFloat16 => real!(half::bf16, f32),
        DType::Byte => integer!(u8),
        DType::Char => integer!(i8),
        DType::Short => integer!(i16),
        DType::Int => integer!(i32),
        DType::Long => integer!(i64),
        DType::ComplexFloat => complex!(f32),
        DType::ComplexDouble => complex!(f64),
        other => return Err(Error::dtype_not_implemented(name, other)),
    }
    Ok(())
}
