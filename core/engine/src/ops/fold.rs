//! Sliding blocks as columns and back (`im2col`, `col2im`), and the shuffles of pixels and channels.

use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::ops::elements::by_size;
use crate::ops::{blas, copy, views};
use crate::tensor::{factory, shape};
use crate::{Complex, DType, Error, MemoryFormat, Result, Tensor, check, op};
use torchnative_kernels::conv::{Taps, columns};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::im2col, im2col_meta, im2col)
        .structured(op::col2im, col2im_meta, col2im)
        .any_device(op::pixel_shuffle, |a| Ok(pixel_shuffle(a.tensor(0)?, a.int(1)?)?.into()))
        .any_device(op::pixel_unshuffle, |a| Ok(pixel_unshuffle(a.tensor(0)?, a.int(1)?)?.into()))
        .any_device(op::channel_shuffle, channel_shuffle)
        .any_device(op::native_channel_shuffle, channel_shuffle);
}

/// Kernel size, dilation, padding and stride of blocks in two dimensions.
struct Blocks {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Blocks {
    fn read(a: Args<'_>, i: usize) -> Result<Blocks> {
        let pair = |i: usize, name: &str| -> Result<[i64; 2]> {
            let list = a.int_list(i)?;
            check!(list.len() == 2, "It is expected {name} equals to 2, but got size {}", list.len());
            Ok([list[0], list[1]])
        };
        let b = Blocks {
            kernel: pair(i, "kernel_size")?,
            dilation: pair(i + 1, "dilation")?,
            padding: pair(i + 2, "padding")?,
            stride: pair(i + 3, "stride")?,
        };
        let ([kh, kw], [dh, dw], [ph, pw], [sh, sw]) = (b.kernel, b.dilation, b.padding, b.stride);
        check!(
            kh > 0 && kw > 0,
            "kernel size should be greater than zero, but got kernel_height: {kh} kernel_width: {kw}"
        );
        check!(
            dh > 0 && dw > 0,
            "dilation should be greater than zero, but got dilation_height: {dh} dilation_width: {dw}"
        );
        check!(
            ph >= 0 && pw >= 0,
            "padding should be non-negative, but got pad_height: {ph} pad_width: {pw}"
        );
        check!(
            sh > 0 && sw > 0,
            "stride should be greater than zero, but got stride_height: {sh} stride_width: {sw}"
        );
        Ok(b)
    }
    /// Blocks in each dimension of an image.
    fn counts(&self, image: [i64; 2]) -> [i64; 2] {
        [0, 1].map(|d| {
            let span = image[d] + 2 * self.padding[d] - (self.dilation[d] * (self.kernel[d] - 1) + 1);
            span.div_euclid(self.stride[d]) + 1
        })
    }
    fn offsets(&self, d: usize) -> Vec<isize> {
        (0..self.kernel[d]).map(|k| (k * self.dilation[d] - self.padding[d]) as isize).collect()
    }
}

/// Whether blocks of the dtype can be moved.
fn check_dtype(name: &str, d: DType) -> Result<()> {
    match d {
        DType::Float | DType::Double | DType::Half | DType::BFloat16 | DType::Bool => Ok(()),
        DType::ComplexFloat | DType::ComplexDouble => Ok(()),
        other => Err(Error::dtype_not_implemented(name, other)),
    }
}

/// im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
fn im2col_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    let b = Blocks::read(a, 1)?;
    let s = t.sizes();
    let n = s.len();
    shape::wrap_dim(2, n.max(1))?;
    check!(
        (n == 3 && s.iter().all(|v| *v != 0)) || (n == 4 && s[1..].iter().all(|v| *v != 0)),
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {s:?}"
    );
    let counts = b.counts([s[n - 2], s[n - 1]]);
    check!(
        counts.iter().all(|c| *c >= 1),
        "Given input with spatial size ({}, {}), kernel_size=({}, {}), dilation=({}, {}), padding=({}, {}), calculated shape of the \
         array of sliding blocks as ({}, {}), but its components must be at least one.",
        s[n - 2],
        s[n - 1],
        b.kernel[0],
        b.kernel[1],
        b.dilation[0],
        b.dilation[1],
        b.padding[0],
        b.padding[1],
        counts[0],
        counts[1]
    );
    let mut sizes = IntList::from_slice(&s[..n - 3]);
    sizes.extend([s[n - 3] * b.kernel[0] * b.kernel[1], counts[0] * counts[1]]);
    Ok(OutSpec::like(t, sizes).into())
}

fn im2col(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = blas::resolved(a.tensor(0)?)?;
    check_dtype("im2col_out_cpu", t.dtype())?;
    let b = Blocks::read(a, 1)?;
    let n = t.dim();
    let (s, st) = (t.sizes(), t.strides());
    let (oh, ow) = (b.offsets(0), b.offsets(1));
    let taps = Taps {
        sizes: [1, s[n - 2] as usize, s[n - 1] as usize],
        strides: [0, st[n - 2] as isize, st[n - 1] as isize],
        step: [1, b.stride[0] as isize, b.stride[1] as isize],
        offsets: [&[0], &oh, &ow],
    };
    let counts = b.counts([s[n - 2], s[n - 1]]).map(|c| c as usize);
    let batch = if n == 4 { s[0] } else { 1 };
    let each = out[0].numel() / batch.max(1);
    by_size!(t.itemsize(), T => {
        for i in 0..batch {
            // SAFETY: all-zero bytes are zero in every dtype taken; the result was sized for the columns.
            unsafe {
                let src = (t.data_ptr() as *const T).wrapping_offset((i * st[0]) as isize);
                let dst = (out[0].data_ptr() as *mut T).wrapping_offset((i * each) as isize);
                let all = (0, counts[0] * counts[1]);
                columns(&taps, src, s[n - 3] as usize, st[n - 3] as isize, [1, counts[0], counts[1]], all, std::mem::zeroed(), dst);
            }
        }
    });
    Ok(())
}

/// col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
fn col2im_meta(a: Args<'_>) -> Result<Specs> {
    let (t, image) = (a.tensor(0)?, a.int_list(1)?);
    check!(image.len() == 2, "It is expected output_size equals to 2, but got size {}", image.len());
    let b = Blocks::read(a, 2)?;
    let s = t.sizes();
    let n = s.len();
    check!(
        (n == 2 && s.iter().all(|v| *v != 0)) || (n == 3 && s[1..].iter().all(|v| *v != 0)),
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {s:?}"
    );
    let (rows, blocks) = (s[n - 2], s[n - 1]);
    let [kh, kw] = b.kernel;
    check!(
        rows % (kh * kw) == 0,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={rows} and \
         kernel_size=({kh}, {kw})."
    );
    let counts = b.counts([image[0], image[1]]);
    check!(
        counts[0] * counts[1] == blocks && counts.iter().all(|c| *c >= 1),
        "Given output_size=({}, {}), kernel_size=({kh}, {kw}), dilation=({}, {}), padding=({}, {}), stride=({}, {}), expected size \
         of input's dimension 2 to match the calculated number of sliding blocks {} * {} = {}, but got input.size(2)={blocks}.",
        image[0],
        image[1],
        b.dilation[0],
        b.dilation[1],
        b.padding[0],
        b.padding[1],
        b.stride[0],
        b.stride[1],
        counts[0],
        counts[1],
        counts[0] * counts[1]
    );
    check!(
        image.iter().all(|v| *v >= 1),
        "Expected output spatial size to be positive, but got: output_size=({}, {}).",
        image[0],
        image[1]
    );
    let mut sizes = IntList::from_slice(&s[..n - 2]);
    sizes.extend([rows / (kh * kw), image[0], image[1]]);
    Ok(OutSpec::like(t, sizes).into())
}

fn col2im(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = copy::contiguous(a.tensor(0)?)?;
    let b = Blocks::read(a, 2)?;
    crate::ops::options::fill(&out[0], crate::Scalar::Int(0))?;
    macro_rules! add {
        ($t:ty, $f:expr) => {
            scatter::<$t>(&t, &b, &out[0], $f)
        };
    }
    match t.dtype() {
        DType::Float => add!(f32, |a, b| a + b),
        DType::Double => add!(f64, |a, b| a + b),
        DType::Half => add!(half::f16, |a, b| a + b),
        DType::BFloat16 => add!(half::bf16, |a, b| a + b),
        DType::Bool => add!(bool, |a, b| a | b),
        DType::ComplexFloat => add!(Complex<f32>, |a, b| a + b),
        DType::ComplexDouble => add!(Complex<f64>, |a, b| a + b),
        other => return Err(Error::dtype_not_implemented("col2im_out_cpu", other)),
    }
    Ok(())
}

/// Adds the blocks of row-major columns to the image.
fn scatter<T: Copy>(t: &Tensor, b: &Blocks, out: &Tensor, add: impl Fn(T, T) -> T) {
    let s = out.sizes();
    let n = s.len();
    let (height, width) = (s[n - 2], s[n - 1]);
    let [rows, cols] = b.counts([height, width]);
    let planes: i64 = s[..n - 2].iter().product();
    let mut src = t.data_ptr() as *const T;
    let (oh, ow) = (b.offsets(0), b.offsets(1));
    for p in 0..planes {
        let plane = (out.data_ptr() as *mut T).wrapping_offset((p * height * width) as isize);
        for fh in &oh {
            for fw in &ow {
                for i in 0..rows {
                    let h = (i * b.stride[0]) as isize + fh;
                    for j in 0..cols {
                        let w = (j * b.stride[1]) as isize + fw;
                        // SAFETY: the columns were counted by the shape function; the place is inside the image.
                        unsafe {
                            if h >= 0 && h < height as isize && w >= 0 && w < width as isize {
                                let at = plane.wrapping_offset(h * width as isize + w);
                                *at = add(*at, *src);
                            }
                            src = src.add(1);
                        }
                    }
                }
            }
        }
    }
}

/// The elements of a view of the result's shape, laid out as the input is.
fn laid_out(view: &Tensor, sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    let format = if like.dim() == 4 { like.suggest_memory_format() } else { MemoryFormat::Contiguous };
    let flat = copy::contiguous(view)?;
    let rows = views::view(&flat, sizes)?;
    let out = factory::empty_format(sizes, like.dtype(), like.device(), format)?;
    copy::copy_into(&out, &rows)?;
    Ok(out)
}

fn pixel_shuffle(t: &Tensor, r: i64) -> Result<Tensor> {
    let (s, n) = (t.sizes(), t.dim());
    check!(
        n >= 3,
        "pixel_shuffle expects input to have at least 3 dimensions, but got input with {n} dimension(s)"
    );
    check!(r > 0, "pixel_shuffle expects a positive upscale_factor, but got {r}");
    let (c, h, w) = (s[n - 3], s[n - 2], s[n - 1]);
    check!(
        c % (r * r) == 0,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but \
         input.size(-3)={c} is not divisible by {}",
        r * r
    );
    let (mut split, mut sizes) = (IntList::from_slice(&s[..n - 3]), IntList::from_slice(&s[..n - 3]));
    split.extend([c / (r * r), r, r, h, w]);
    sizes.extend([c / (r * r), h * r, w * r]);
    let k = n as i64 - 3;
    let mut order: IntList = (0..k).collect();
    order.extend([k, k + 3, k + 1, k + 4, k + 2]);
    let parts = views::view(&copy::contiguous(t)?, &split)?;
    laid_out(&views::permute(&parts, &order)?, &sizes, t)
}

fn pixel_unshuffle(t: &Tensor, r: i64) -> Result<Tensor> {
    let (s, n) = (t.sizes(), t.dim());
    check!(
        n >= 3,
        "pixel_unshuffle expects input to have at least 3 dimensions, but got input with {n} dimension(s)"
    );
    check!(r > 0, "pixel_unshuffle expects a positive downscale_factor, but got {r}");
    let (c, h, w) = (s[n - 3], s[n - 2], s[n - 1]);
    for (name, d, size) in [("height", -2, h), ("width", -1, w)] {
        check!(
            size % r == 0,
            "pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({d})={size} is not divisible by {r}"
        );
    }
    let (mut split, mut sizes) = (IntList::from_slice(&s[..n - 3]), IntList::from_slice(&s[..n - 3]));
    split.extend([c, h / r, r, w / r, r]);
    sizes.extend([c * r * r, h / r, w / r]);
    let k = n as i64 - 3;
    let mut order: IntList = (0..k).collect();
    order.extend([k, k + 2, k + 4, k + 1, k + 3]);
    let parts = views::view(&copy::contiguous(t)?, &split)?;
    laid_out(&views::permute(&parts, &order)?, &sizes, t)
}

/// channel_shuffle(Tensor self, SymInt groups) -> Tensor
fn channel_shuffle(a: Args<'_>) -> Result<Returns> {
    let (t, groups) = (a.tensor(0)?, a.int(1)?);
    let s = t.sizes();
    check!(t.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes {s:?}");
    check!(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:{groups}");
    check!(
        s[1] % groups == 0,
        "Number of channels must be divisible by groups. Got {} channels and {groups} groups.",
        s[1]
    );
    let split = [s[0], groups, s[1] / groups, s[2..].iter().product()];
    let parts = views::view(&copy::contiguous(t)?, &split)?;
    Ok(laid_out(&views::permute(&parts, &[0, 2, 1, 3])?, s, t)?.into())
}
