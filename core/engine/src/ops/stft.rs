//! Short-time Fourier transforms, and the frequencies of a transform.

use crate::dispatch::{Registry, Returns};
use crate::iter::default_dtype;
use crate::ivalue::{Args, IValue, IntList};
use crate::{DType, Result, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::stft, |a| stft(a.tensor(0)?, &a, 1, 5));
    r.implicit(op::stft_center, centred);
    r.implicit(op::istft, istft);
    r.explicit(op::fft_fftfreq, |a| {
        let (n, d) = (a.int(0)?, a.double(1)?);
        let options = |start: i64, end: i64| {
            op::arange_start.call((
                crate::Scalar::Int(start),
                crate::Scalar::Int(end),
                dtype_or_default(&a, 2)?,
                a.0[3].clone(),
                a.0[4].clone(),
            ))
        };
        let halves = vec![options(0, (n + 1) / 2)?, options(-(n / 2), 0)?];
        Ok(op::mul_Scalar.call((op::cat.call((halves, 0))?, 1.0 / (n as f64 * d)))?.into())
    });
    r.explicit(op::fft_rfftfreq, |a| {
        let (n, d) = (a.int(0)?, a.double(1)?);
        let places = op::arange.call((
            crate::Scalar::Int(n / 2 + 1),
            dtype_or_default(&a, 2)?,
            a.0[3].clone(),
            a.0[4].clone(),
        ))?;
        Ok(op::mul_Scalar.call((places, 1.0 / (n as f64 * d)))?.into())
    });
}

fn dtype_or_default(a: &Args<'_>, i: usize) -> Result<DType> {
    Ok(a.opt_dtype(i)?.unwrap_or_else(default_dtype))
}

fn opt_int(v: &IValue) -> Result<Option<i64>> {
    if matches!(v, IValue::None) { Ok(None) } else { v.int().map(Some) }
}

fn opt_bool(v: &IValue) -> Result<Option<bool>> {
    if matches!(v, IValue::None) { Ok(None) } else { v.bool().map(Some) }
}

fn shown(t: &Tensor) -> String {
    let sizes: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
    format!("{}[{}]", t.type_string(), sizes.join(", "))
}

/// stft.center(Tensor self, int n_fft, int? hop_length, int? win_length, Tensor? window, bool center, str pad_mode, bool
/// normalized, bool? onesided, bool? return_complex, bool? align_to_window) -> Tensor
fn centred(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    if !a.bool(5)? {
        return stft(t, &a, 1, 7);
    }
    check!(opt_bool(&a.0[10])?.is_none(), "stft align_to_window should only be set when center = false.");
    let n_fft = a.int(1)?;
    let half = n_fft / 2;
    // Padding wants a batch and a channel.
    let extra = 3usize.saturating_sub(t.dim());
    let mut wide: IntList = IntList::from_elem(1, extra);
    wide.extend(t.sizes().iter().copied());
    let padded = op::pad.call((op::view.call((t, wide))?, [half, half], a.str(6)?))?;
    let mut sizes = IntList::from_slice(t.sizes());
    if let Some(n) = sizes.last_mut() {
        *n += 2 * half;
    }
    stft(&op::view.call((padded, sizes))?, &a, 1, 7)
}

/// The transform without padding; arguments from `first` on are n_fft, hop_length, win_length and window, those from `second` on
/// normalized, onesided, return_complex and align_to_window.
fn stft(t: &Tensor, a: &Args<'_>, first: usize, second: usize) -> Result<Returns> {
    let n_fft = a.int(first)?;
    let hop = opt_int(&a.0[first + 1])?.unwrap_or(n_fft / 4);
    let length = opt_int(&a.0[first + 2])?.unwrap_or(n_fft);
    let window = a.opt_tensor(first + 3);
    let normalized = a.bool(second)?;
    let complex = t.dtype().is_complex() || window.is_some_and(|w| w.dtype().is_complex());
    let return_complex = match opt_bool(&a.0[second + 2])? {
        Some(v) => v,
        None => {
            check!(
                complex,
                "stft requires the return_complex parameter be given for real inputs, and will further require that \
                 return_complex=True in a future PyTorch release."
            );
            true
        }
    };
    check!(
        opt_bool(&a.0[second + 3])?.is_none(),
        NotImplemented;
        "stft with align_to_window is not implemented"
    );
    let call = || {
        format!(
            "stft({}, n_fft={n_fft}, hop_length={hop}, win_length={length}, window={})",
            shown(t),
            window.map_or("None".into(), |w| format!("{}{{{:?}}}", w.type_string(), w.sizes()))
        )
    };
    check!(
        t.dtype().is_floating_point() || t.dtype().is_complex(),
        "{} : expected a tensor of floating point or complex values",
        call()
    );
    check!(t.dim() == 1 || t.dim() == 2, "{} : expected a 1D or 2D tensor", call());
    let flat = t.dim() == 1;
    let signal = if flat { op::unsqueeze.call((t, 0))? } else { t.clone() };
    let len = signal.sizes()[1];
    check!(0 < n_fft && n_fft <= len, "{} : expected 0 < n_fft < {len}, but got n_fft={length}", call());
    check!(hop > 0, "{} : expected hop_length > 0, but got hop_length={hop}", call());
    check!(
        0 < length && length <= n_fft,
        "{} : expected 0 < win_length <= n_fft, but got win_length={length}",
        call()
    );
    check!(
        window.is_none_or(|w| w.dim() == 1 && w.sizes()[0] == length),
        "{} : expected a 1D window tensor of size equal to win_length={length}, but got window with size {:?}",
        call(),
        window.map(|w| w.sizes().to_vec()).unwrap_or_default()
    );
    let window = full_window(window, length, n_fft, t)?;
    let mut frames = op::unfold.call((signal, -1, n_fft, hop))?;
    if let Some(w) = &window {
        frames = op::mul_Tensor.call((frames, w))?;
    }
    let onesided = opt_bool(&a.0[second + 1])?.unwrap_or(!complex);
    check!(!(complex && onesided), "Cannot have onesided output if window or input is complex");
    let norm = normalized as i64;
    let out = if complex {
        op::_fft_c2c.call((frames, [2i64], norm, true))?
    } else {
        op::_fft_r2c.call((frames, [2i64], norm, onesided))?
    };
    let mut out = op::transpose_int.call((out, 1, 2))?;
    if flat {
        out = op::squeeze_dim.call((out, 0))?;
    }
    Ok(if return_complex { out } else { op::view_as_real.call((out,))? }.into())
}

/// The window in the middle of `n_fft` places, zero around it; `None` where it would be ones.
fn full_window(window: Option<&Tensor>, length: i64, n_fft: i64, like: &Tensor) -> Result<Option<Tensor>> {
    if length == n_fft {
        return Ok(window.cloned());
    }
    let window = match window {
        Some(w) => w.clone(),
        None => op::ones.call(([length], like.dtype(), IValue::None, like.device()))?,
    };
    let left = (n_fft - length) / 2;
    Ok(Some(op::constant_pad_nd.call((window, [left, n_fft - length - left]))?))
}

/// istft(Tensor self, int n_fft, int? hop_length, int? win_length, Tensor? window, bool center, bool normalized, bool? onesided,
/// int? length, bool return_complex) -> Tensor
fn istft(a: Args<'_>) -> Result<Returns> {
    let (t, n_fft) = (a.tensor(0)?, a.int(1)?);
    let hop = opt_int(&a.0[2])?.unwrap_or(n_fft / 4);
    let win_length = opt_int(&a.0[3])?.unwrap_or(n_fft);
    let window = a.opt_tensor(4);
    let (center, normalized, length) = (a.bool(5)?, a.bool(6)?, opt_int(&a.0[8])?);
    let return_complex = a.bool(9)?;
    check!(
        t.dtype().is_complex(),
        Type;
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
    );
    let call = || {
        format!(
            "istft({}, n_fft={n_fft}, hop_length={hop}, win_length={win_length}, window={})",
            shown(t),
            window.map_or("None".into(), |w| format!("{}{{{:?}}}", w.type_string(), w.sizes()))
        )
    };
    check!(t.numel() > 0, "{}: input tensor cannot be empty.", call());
    check!(
        t.dim() == 2 || t.dim() == 3,
        "{}: expected a tensor with 2 or 3 dimensions, but got {}",
        call(),
        t.dim()
    );
    let flat = t.dim() == 2;
    let spectrum = if flat { op::unsqueeze.call((t, 0))? } else { t.clone() };
    let (bins, frames) = (spectrum.sizes()[1], spectrum.sizes()[2]);
    let onesided = opt_bool(&a.0[7])?.unwrap_or(bins != n_fft);
    if onesided {
        check!(
            n_fft / 2 + 1 == bins,
            "{}: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when onesided=True, \
             but got {bins}",
            call()
        );
    } else {
        check!(
            n_fft == bins,
            "{}: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when onesided=False, but got \
             {bins}",
            call()
        );
    }
    check!(0 < hop && hop <= win_length, "{}: expected 0 < hop_length <= win_length", call());
    check!(0 < win_length && win_length <= n_fft, "{}: expected 0 < win_length <= n_fft", call());
    check!(
        window.is_none_or(|w| w.dim() == 1 && w.sizes()[0] == win_length),
        "{}: Invalid window shape. window has to be 1D and length of `win_length`",
        call()
    );
    let total = n_fft + hop * (frames - 1);
    let weights = match full_window(window, win_length, n_fft, &op::real.call((t,))?)? {
        Some(w) => w,
        None => op::ones.call(([n_fft], t.dtype().to_real(), IValue::None, t.device()))?,
    };
    let spectrum = op::transpose_int.call((spectrum, 1, 2))?;
    // By the root of n, or by n.
    let norm = if normalized { 1 } else { 2 };
    let pieces = if return_complex {
        check!(!onesided, "{}: complex output is incompatible with a onesided spectrum", call());
        op::_fft_c2c.call((spectrum, [2i64], norm, false))?
    } else {
        check!(
            window.is_none_or(|w| !w.dtype().is_complex()),
            "Complex windows are incompatible with return_complex=False"
        );
        let half = if onesided { spectrum } else { op::narrow.call((spectrum, -1, 0, n_fft / 2 + 1))? };
        op::_fft_c2r.call((half, [2i64], norm, n_fft))?
    };
    let batch = pieces.sizes()[0];
    let weighted = op::mul_Tensor.call((pieces, op::view.call((&weights, [1, 1, n_fft]))?))?;
    let added = op::unfold_backward.call((weighted, [batch, total], 1, n_fft, hop))?;
    let squares = op::mul_Tensor.call((&weights, &weights))?;
    let squares = op::expand.call((op::view.call((squares, [1, 1, n_fft]))?, [1, frames, n_fft]))?;
    let envelope = op::unfold_backward.call((squares, [1, total], 1, n_fft, hop))?;
    let start = if center { n_fft / 2 } else { 0 };
    let end = match length {
        Some(n) => start + n,
        None if center => total - n_fft / 2,
        None => total,
    };
    let cut = |t: Tensor| op::slice_Tensor.call((t, 1, start, end, 1));
    let (signal, envelope) = (cut(added)?, cut(envelope)?);
    let lowest = op::min.call((op::abs.call((&envelope,))?,))?;
    let covered = op::gt_Scalar.call((lowest, 1e-11))?;
    check!(op::is_nonzero.call_all((covered,))?[0].bool()?, "{}window overlap add min: 1", call());
    let mut out = op::div_Tensor.call((signal, envelope))?;
    if end > total {
        crate::warn::warn(
            crate::warn::Category::User,
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check \
             your center and hop_length settings.",
        )?;
        out = op::constant_pad_nd.call((out, [0, end - total]))?;
    }
    Ok(if flat { op::squeeze_dim.call((out, 0))? } else { out }.into())
}
