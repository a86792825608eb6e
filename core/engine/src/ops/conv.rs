//! Convolution: `convolution` and the functions that lead to it.

use crate::cpu::conv::{Params, forward};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, op, warn};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::convolution, meta, fill)
        .explicit(op::_convolution, |a| plain(a, a.len() - 4))
        .implicit(op::_convolution_deprecated, |a| plain(a, a.len() - 3))
        .explicit(op::convolution_overrideable, |_| {
            bail!(
                NotImplemented,
                "convolution_overrideable not implemented. You are likely triggering this with tensor backend other than \
                 CPU/CUDA/MKLDNN, if this is intended, please use TORCH_LIBRARY_IMPL to override this function "
            )
        })
        .implicit(op::_convolution_mode, |a| {
            let (x, w, b) = (a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2));
            Ok(by_mode(x, w, b, a.int_list(3)?, a.str(4)?, a.int_list(5)?, a.int(6)?)?.into())
        })
        .implicit(op::conv1d, |a| direct(a, "conv1d", 1))
        .implicit(op::conv2d, |a| direct(a, "conv2d", 2))
        .implicit(op::conv3d, |a| direct(a, "conv3d", 3))
        .implicit(op::conv1d_padding, |a| padded(a, "conv1d", 1))
        .implicit(op::conv2d_padding, |a| padded(a, "conv2d", 2))
        .implicit(op::conv3d_padding, |a| padded(a, "conv3d", 3))
        .implicit(op::conv_transpose1d, |a| transposed(a, "conv_transpose1d", 1))
        .implicit(op::conv_transpose2d_input, |a| transposed(a, "conv_transpose2d", 2))
        .implicit(op::conv_transpose3d_input, |a| transposed(a, "conv_transpose3d", 3))
        .explicit(op::conv_tbc, conv_tbc)
        .explicit(op::mkldnn_convolution, |a| {
            let (padding, stride) = (a.int_list(3)?, a.int_list(4)?);
            slow(a, stride, padding, a.int_list(5)?, None, a.int(6)?)
        })
        .explicit(op::_nnpack_spatial_convolution, |a| {
            slow(a, a.int_list(4)?, a.int_list(3)?, &[1, 1], None, 1)
        });
    // The entries of single kernels, of which ours is one for all.
    r.implicit(op::thnn_conv2d, |a| kernel(a, None, 1))
        .implicit(op::slow_conv3d, |a| kernel(a, None, 1))
        .explicit(op::_slow_conv2d_forward, |a| kernel(a, None, 1))
        .explicit(op::slow_conv3d_forward, |a| kernel(a, None, 1))
        .explicit(op::slow_conv_dilated2d, |a| kernel(a, Some(6), 1))
        .explicit(op::slow_conv_dilated3d, |a| kernel(a, Some(6), 1))
        .explicit(op::_conv_depthwise2d, |a| kernel(a, Some(6), a.tensor(0)?.size(1)?))
        .explicit(op::conv_depthwise3d, |a| kernel(a, Some(6), a.tensor(0)?.size(1)?))
        .explicit(op::slow_conv_transpose2d, kernel_transposed)
        .explicit(op::slow_conv_transpose3d, kernel_transposed);
}

/// One value for each spatial dimension.
fn spread(list: &[i64], name: &str, rank: usize) -> Result<IntList> {
    match list.len() {
        1 => Ok(IntList::from_elem(list[0], rank)),
        n if n == rank => Ok(list.into()),
        _ => bail!(
            Runtime,
            "expected {name} to be a single integer value or a list of {rank} values to match the convolution dimensions, but got \
             {name}={list:?}"
        ),
    }
}

/// The arguments of `convolution`.
struct Convolution<'a> {
    x: &'a Tensor,
    w: &'a Tensor,
    bias: Option<&'a Tensor>,
    p: Params,
    output_padding: IntList,
}

impl<'a> Convolution<'a> {
    /// convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    /// bool transposed, SymInt[] output_padding, SymInt groups)
    fn read(a: Args<'a>) -> Result<Self> {
        let (x, w) = (a.tensor(0)?, a.tensor(1)?);
        check!(w.dim() > 2, "weight should have at least three dimensions");
        check!(a.int(8)? > 0, "non-positive groups is not supported");
        let rank = w.dim() - 2;
        let c = Convolution {
            x,
            w,
            bias: a.opt_tensor(2),
            p: Params {
                stride: spread(a.int_list(3)?, "stride", rank)?,
                padding: spread(a.int_list(4)?, "padding", rank)?,
                dilation: spread(a.int_list(5)?, "dilation", rank)?,
                transposed: a.bool(6)?,
                groups: a.int(8)?,
            },
            output_padding: spread(a.int_list(7)?, "output_padding", rank)?,
        };
        c.check_values()?;
        c.check_shapes()?;
        Ok(c)
    }

    fn check_values(&self) -> Result<()> {
        let p = &self.p;
        check!(p.padding.iter().all(|v| *v >= 0), "negative padding is not supported");
        check!(self.output_padding.iter().all(|v| *v >= 0), "negative output_padding is not supported");
        check!(p.stride.iter().all(|v| *v > 0), "non-positive stride is not supported");
        check!(p.dilation.iter().all(|v| *v > 0), "non-positive dilation is not supported");
        Ok(())
    }

    fn check_shapes(&self) -> Result<()> {
        let (x, w, p, g) = (self.x.sizes(), self.w.sizes(), &self.p, self.p.groups);
        let rank = w.len();
        check!(
            x.len() == rank,
            "Expected {rank}-dimensional input for {rank}-dimensional weight {w:?}, but got {}-dimensional input of size {x:?} \
             instead",
            x.len()
        );
        check!(
            w[0] >= g,
            "Given groups={g}, expected weight to be at least {g} at dimension 0, but got weight of size {w:?} instead"
        );
        check!(
            w[0] % g == 0,
            "Given groups={g}, expected weight to be divisible by {g} at dimension 0, but got weight of size [{w:?}] instead"
        );
        let bias = |n: i64| self.bias.is_none_or(|b| b.sizes() == [n]);
        let got = || self.bias.map(|b| b.sizes().to_vec()).unwrap_or_default();
        if p.transposed {
            check!(
                x[1] == w[0],
                "Given transposed=1, weight of size {w:?}, expected input{x:?} to have {} channels, but got {} channels instead",
                w[0],
                x[1]
            );
            check!(
                bias(w[1] * g),
                "Given transposed=1, weight of size {w:?}, expected bias to be 1-dimensional with {} elements, but got bias of \
                 size {:?} instead",
                w[1] * g,
                got()
            );
            return Ok(());
        }
        check!(
            x[1] == w[1] * g,
            "Given groups={g}, weight of size {w:?}, expected input{x:?} to have {} channels, but got {} channels instead",
            w[1] * g,
            x[1]
        );
        check!(
            bias(w[0]),
            "Given weight of size {w:?}, expected bias to be 1-dimensional with {} elements, but got bias of size {:?} instead",
            w[0],
            got()
        );
        let input: Vec<i64> = (2..rank).map(|d| x[d] + 2 * p.padding[d - 2]).collect();
        let kernel: Vec<i64> = (2..rank).map(|d| p.dilation[d - 2] * (w[d] - 1) + 1).collect();
        let joined = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
        check!(
            input.iter().zip(&kernel).all(|(i, k)| i >= k),
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
            joined(&input),
            joined(&kernel)
        );
        Ok(())
    }

    fn out_sizes(&self) -> Result<IntList> {
        let (x, w, p) = (self.x.sizes(), self.w.sizes(), &self.p);
        let channels = if p.transposed { w[1] * p.groups } else { w[0] };
        // Without input channels upstream makes no output channels either.
        let mut out = IntList::from_slice(&[x[0], if x[1] == 0 { 0 } else { channels }]);
        for d in 2..w.len() {
            let (s, pad, dil) = (p.stride[d - 2], p.padding[d - 2], p.dilation[d - 2]);
            let reach = dil * (w[d] - 1);
            out.push(if p.transposed {
                (x[d] - 1) * s - 2 * pad + reach + self.output_padding[d - 2] + 1
            } else {
                (x[d] + 2 * pad - reach - 1) / s + 1
            });
        }
        if x[0] != 0 && x[1] != 0 {
            check!(
                self.x.numel() != 0,
                "Only zero batch or zero channel inputs are supported, but got input shape: {x:?}"
            );
        }
        let per_channel = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
        check!(
            out[2..].iter().all(|n| *n > 0),
            "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
            per_channel(&x[2..]),
            per_channel(&out[2..])
        );
        Ok(out)
    }

    /// What only the transposed kernel demands.
    fn check_output_padding(&self) -> Result<()> {
        let p = &self.p;
        let fits = |d: usize| {
            let o = self.output_padding[d];
            o < p.stride[d] || o < p.dilation[d]
        };
        let rank = self.w.dim() - 2;
        if !p.transposed || (0..rank).all(fits) {
            return Ok(());
        }
        let names: &[&str] = if rank == 3 { &["depth", "height", "width"] } else { &["height", "width"] };
        let text = |prefix: &str, values: &[i64], fill: i64| {
            let lead = names.len() - values.len();
            let value = |i: usize| if i < lead { fill } else { values[i - lead] };
            names
                .iter()
                .enumerate()
                .map(|(i, n)| format!("{prefix}_{n}: {}", value(i)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        bail!(
            Runtime,
            "output padding must be smaller than either stride or dilation, but got {} {} {}",
            text("output_padding", &self.output_padding, 0),
            text("stride", &p.stride, 1),
            text("dilation", &p.dilation, 1)
        )
    }

    /// Row-major unless the input or the weight is laid out with its channels last.
    fn format(&self) -> MemoryFormat {
        if self.x.is_meta() {
            return MemoryFormat::Contiguous;
        }
        match (self.x.suggest_memory_format(), self.w.suggest_memory_format()) {
            (MemoryFormat::ChannelsLast3d, _) | (_, MemoryFormat::ChannelsLast3d) if !self.fast3d() => {
                MemoryFormat::Contiguous
            }
            (MemoryFormat::Contiguous, f) | (f, _) => f,
        }
    }

    /// Whether upstream's fast kernel takes a convolution in three dimensions; only it keeps channels last.
    fn fast3d(&self) -> bool {
        let (x, w, p) = (self.x.sizes(), self.w.sizes(), &self.p);
        let big_padding = || self.output_padding.iter().zip(&p.stride).any(|(o, s)| o >= s);
        if p.transposed && (big_padding() || (p.groups > 1 && x[1] == p.groups)) {
            return false;
        }
        let wide = |d: usize| w[d] > 3;
        let strided = p.stride.iter().chain(&p.dilation).any(|v| *v != 1);
        match self.x.dtype() {
            DType::BFloat16 => true,
            DType::Float => {
                (strided || x[0] >= 16 || w[4] != 1 || w[3] != 1 || crate::cpu::parallel::num_threads() > 1)
                    && (p.groups > 1
                        || (wide(4) && wide(3))
                        || x[0] > 1
                        || x[..4].iter().product::<i64>() > 20480)
            }
            _ => false,
        }
    }

    /// Upstream's kernels for dilated and for transposed convolution take fewer integers than the plain one.
    fn check_dtype(&self) -> Result<()> {
        let d = self.x.dtype();
        if !matches!(d, DType::Byte | DType::Char | DType::Short | DType::Int) || self.x.is_meta() {
            return Ok(());
        }
        let name = match self.w.dim() {
            5 if self.p.transposed => "slow_conv_transpose3d_out_cpu",
            _ if self.p.transposed => "slow_conv_transpose2d_out_cpu",
            _ if self.p.dilation.iter().any(|v| *v != 1) => "slow_conv_dilated<>",
            _ => return Ok(()),
        };
        Err(crate::Error::dtype_not_implemented(name, d))
    }
}

/// The name of a dtype's tensor class from before dtypes.
fn legacy_type(d: DType) -> String {
    let name = d.scalar_type_name();
    if d == DType::BFloat16 { format!("CPU{name}Type") } else { format!("torch.{name}Tensor") }
}

fn meta(a: Args<'_>) -> Result<Specs> {
    let c = Convolution::read(a)?;
    let (xd, wd) = (c.x.dtype(), c.w.dtype());
    if let Some(b) = c.bias {
        check!(
            b.dtype() == xd,
            "Input type ({}) and bias type ({}) should be the same",
            xd.torch_name_cpp(),
            b.dtype().torch_name_cpp()
        );
    }
    if wd != xd && matches!(xd, DType::Float | DType::BFloat16 | DType::Half) {
        bail!(
            Runtime,
            "Input type ({}) and weight type ({}) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
            legacy_type(xd),
            legacy_type(wd)
        );
    }
    check!(wd == xd, "expected scalar type {} but found {}", xd.scalar_type_name(), wd.scalar_type_name());
    c.check_output_padding()?;
    c.check_dtype()?;
    let sizes = c.out_sizes()?;
    let spec = OutSpec::like(c.x, sizes.clone());
    Ok(match c.format() {
        MemoryFormat::Contiguous => spec,
        f => spec.strides(shape::strides_for(&sizes, f)?),
    }
    .into())
}

fn fill(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let c = Convolution::read(a)?;
    forward(c.x, c.w, c.bias, &c.p, &out[0])
}

/// `convolution` of the first `n` arguments.
fn plain(a: Args<'_>, n: usize) -> Result<Returns> {
    Ok(op::convolution.call(crate::Stack::from_iter(a.0[..n].iter().cloned()))?.into())
}

/// Calls `f` with the input given a batch, and takes the batch off the result where it was added.
fn batched(
    x: &Tensor,
    name: &str,
    rank: usize,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Returns> {
    check!(
        x.dim() == rank + 1 || x.dim() == rank + 2,
        "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {:?}",
        rank + 1,
        rank + 2,
        x.sizes()
    );
    if x.dim() == rank + 2 {
        return Ok(f(x)?.into());
    }
    let out = f(&op::unsqueeze.call((x, 0))?)?;
    Ok(op::squeeze_dim.call((out, 0))?.into())
}

fn direct(a: Args<'_>, name: &str, rank: usize) -> Result<Returns> {
    batched(a.tensor(0)?, name, rank, |x| {
        op::convolution.call((
            x,
            a.tensor(1)?,
            a.opt_tensor(2),
            a.int_list(3)?,
            a.int_list(4)?,
            a.int_list(5)?,
            false,
            IntList::from_elem(0, rank),
            a.int(6)?,
        ))
    })
}

fn transposed(a: Args<'_>, name: &str, rank: usize) -> Result<Returns> {
    batched(a.tensor(0)?, name, rank, |x| {
        op::convolution.call((
            x,
            a.tensor(1)?,
            a.opt_tensor(2),
            a.int_list(3)?,
            a.int_list(4)?,
            a.int_list(7)?,
            true,
            a.int_list(5)?,
            a.int(6)?,
        ))
    })
}

fn padded(a: Args<'_>, name: &str, rank: usize) -> Result<Returns> {
    batched(a.tensor(0)?, name, rank, |x| {
        by_mode(x, a.tensor(1)?, a.opt_tensor(2), a.int_list(3)?, a.str(4)?, a.int_list(5)?, a.int(6)?)
    })
}

fn by_mode(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    mode: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    match mode {
        "same" => same(x, w, bias, stride, dilation, groups),
        "valid" => {
            let zeros = IntList::from_elem(0, w.dim().saturating_sub(2).max(1));
            op::convolution.call((x, w, bias, stride, zeros.clone(), dilation, false, zeros, groups))
        }
        other => bail!(Runtime, "Invalid padding string: '{other}'"),
    }
}

/// Padding that keeps the input's size; the odd zero goes to the end.
fn same(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    check!(w.dim() > 2, "weight should have at least three dimensions");
    check!(groups > 0, "non-positive groups is not supported");
    let rank = w.dim() - 2;
    for (name, list) in [("stride", stride), ("dilation", dilation)] {
        check!(list.len() == rank || list.len() == 1, "{name} cannot broadcast to {rank} dimensions");
    }
    check!(stride.iter().all(|s| *s == 1), "padding='same' is not supported for strided convolutions");
    let mut padding = IntList::new();
    let mut extra = IntList::from_elem(0, 2 * rank);
    for d in 0..rank {
        let dil = if dilation.len() == 1 { dilation[0] } else { dilation[d] };
        let total = dil * (w.sizes()[d + 2] - 1);
        padding.push(total / 2);
        extra[2 * (rank - 1 - d) + 1] = total - 2 * (total / 2);
    }
    let zeros = IntList::from_elem(0, rank);
    if extra.iter().all(|e| *e == 0) {
        return op::convolution.call((x, w, bias, stride, padding, dilation, false, zeros, groups));
    }
    warn::warn(
        warn::Category::User,
        "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created",
    )?;
    let x = op::constant_pad_nd.call((x, extra, Scalar::Int(0)))?;
    op::convolution.call((x, w, bias, stride, padding, dilation, false, zeros, groups))
}

/// conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor
fn conv_tbc(a: Args<'_>) -> Result<Returns> {
    let (x, w, bias, pad) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.int(3)?);
    check!(x.dim() == 3, "Input must have 3 dims: time, batch, in_channel");
    check!(w.dim() == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    check!(bias.dim() == 1, "Bias must be 1-D");
    check!(x.sizes()[2] == w.sizes()[1], "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
    check!(
        w.sizes()[2] == bias.sizes()[0],
        "Bias size must equal dim 2 in the weight tensor (output channels)."
    );
    let rows = op::permute.call((x, [1, 2, 0]))?;
    let filters = op::permute.call((w, [2, 1, 0]))?;
    let out = op::convolution.call((rows, filters, bias, [1], [pad], [1], false, [0], 1))?;
    let out = op::permute.call((out, [2, 0, 1]))?;
    Ok(op::clone.call((out, MemoryFormat::Contiguous))?.into())
}

fn slow(
    a: Args<'_>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    bias: Option<usize>,
    groups: i64,
) -> Result<Returns> {
    let rank = a.tensor(1)?.dim().saturating_sub(2);
    let bias = a.opt_tensor(bias.unwrap_or(2));
    let zeros = IntList::from_elem(0, rank);
    Ok(op::convolution
        .call((a.tensor(0)?, a.tensor(1)?, bias, stride, padding, dilation, false, zeros, groups))?
        .into())
}

/// (self, weight, kernel_size, bias, stride, padding, dilation?)
fn kernel(a: Args<'_>, dilation: Option<usize>, groups: i64) -> Result<Returns> {
    let ones = IntList::from_elem(1, a.int_list(2)?.len());
    let dilation = dilation.map_or(Ok(&ones[..]), |i| a.int_list(i))?;
    slow(a, a.int_list(4)?, a.int_list(5)?, dilation, Some(3), groups)
}

/// (self, weight, kernel_size, bias, stride, padding, output_padding, dilation)
fn kernel_transposed(a: Args<'_>) -> Result<Returns> {
    let (stride, padding) = (a.int_list(4)?, a.int_list(5)?);
    let out = op::convolution.call((
        a.tensor(0)?,
        a.tensor(1)?,
        a.opt_tensor(3),
        stride,
        padding,
        a.int_list(7)?,
        true,
        a.int_list(6)?,
        1,
    ))?;
    Ok(out.into())
}
