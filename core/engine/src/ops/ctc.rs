//! Connectionist temporal classification.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::ops::{copy, elements, views};
use crate::tensor::factory;
use crate::{DType, Error, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.cpu(op::_ctc_loss, |a| forward(a, a.int_list(2)?, a.int_list(3)?))
        .cpu(op::_ctc_loss_Tensor, |a| {
            let (x, y) = (elements::index_values(a.tensor(2)?)?, elements::index_values(a.tensor(3)?)?);
            forward(a, &x, &y)
        })
        .implicit(op::ctc_loss_IntList, |a| loss(a, a.int_list(2)?, a.int_list(3)?))
        .implicit(op::ctc_loss_Tensor, |a| {
            for (i, name) in [(2, "input_lengths"), (3, "target_lengths")] {
                check!(a.tensor(i)?.dtype().is_integral(false), "{name} must be integral");
            }
            let (x, y) = (elements::index_values(a.tensor(2)?)?, elements::index_values(a.tensor(3)?)?);
            loss(a, &x, &y)
        });
}

/// (log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
fn loss(a: Args<'_>, inputs: &[i64], targets: &[i64]) -> Result<Returns> {
    let x = a.tensor(0)?;
    let batched = x.dim() == 3;
    let x = if batched { x.clone() } else { op::unsqueeze.call((x, 1))? };
    let lists = |l: &[i64]| IntList::from_slice(l);
    let mut out =
        op::_ctc_loss.call((x, a.tensor(1)?, lists(inputs), lists(targets), a.int(4)?, a.bool(6)?))?;
    if a.bool(6)? {
        let endless = op::eq_Scalar.call((&out, Scalar::Float(f64::INFINITY)))?;
        out = op::masked_fill_Scalar.call((out, endless, Scalar::Int(0)))?;
    }
    Ok(match a.int(5)? {
        1 => {
            let lengths: Vec<i64> = targets.iter().map(|n| (*n).max(1)).collect();
            let lengths = op::to_dtype.call((factory::from_slice(&lengths)?, out.dtype()))?;
            op::mean.call((op::div_Tensor.call((out, lengths))?,))?
        }
        2 => op::sum.call((out,))?,
        _ if batched => out,
        _ => op::squeeze_dim.call((out, 0))?,
    }
    .into())
}

/// The logarithm of a sum of exponentials.
fn log_add(values: &[f64]) -> f64 {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + values.iter().map(|v| (v - top).exp()).sum::<f64>().ln()
}

/// _ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False)
/// -> (Tensor, Tensor): the negative log-likelihoods, and the logarithms of the probabilities of all prefixes.
fn forward(a: Args<'_>, inputs: &[i64], lengths: &[i64]) -> Result<Returns> {
    let (x, targets, blank) = (a.tensor(0)?, a.tensor(1)?, a.int(4)?);
    check!(x.dim() == 3, "log_probs tensor must have 3 dimensions, but got {}", x.dim());
    if !matches!(x.dtype(), DType::Float | DType::Double) {
        return Err(Error::dtype_not_implemented("ctc_loss_cpu", x.dtype()));
    }
    let (steps, batch, labels) = (x.sizes()[0], x.sizes()[1], x.sizes()[2]);
    check!(steps > 0 || batch == 0, "log_probs tensor must not be empty");
    check!((0..labels).contains(&blank), "blank must be in label range");
    check!(inputs.len() as i64 == batch, "input_lengths must be of size batch_size");
    check!(lengths.len() as i64 == batch, "target_lengths must be of size batch_size");
    check!(
        matches!(targets.dtype(), DType::Long | DType::Int),
        "Expected targets of dtype Long or Int, but got {}",
        targets.dtype().scalar_type_name()
    );
    let flat = targets.dim() == 1;
    let most = lengths.iter().copied().max().unwrap_or(0);
    if flat {
        check!(
            targets.numel() == lengths.iter().sum::<i64>(),
            "Expected tensor to have size {} at dimension 0, but got size {} for argument #2 'targets' (while checking arguments for \
             ctc_loss_allocate_outputs)",
            lengths.iter().sum::<i64>(),
            targets.numel()
        );
    } else {
        check!(
            targets.dim() == 2 && targets.sizes()[0] == batch && targets.sizes()[1] >= most,
            "Expected tensor to have size at least {most} at dimension 1, but got size {:?} for argument #2 'targets' (while checking \
             arguments for ctc_loss_allocate_outputs)",
            targets.sizes()
        );
    }
    for (b, (&n, &m)) in inputs.iter().zip(lengths).enumerate() {
        check!(
            n >= 0,
            "Expected input_lengths to have value at least 0, but got value {n} (while checking arguments for ctc_loss_allocate_outputs)"
        );
        check!(
            n <= steps,
            "Expected input_lengths to have value at most {steps}, but got value {n} (while checking arguments for ctc_loss_allocate_outputs)"
        );
        check!(
            m >= 0,
            "Expected target_lengths to have value at least 0, but got value {m} (batch entry {b})"
        );
    }
    let labels_of = elements::index_values(targets)?;
    let wide = copy::contiguous(&copy::convert(x, DType::Double)?)?;
    // SAFETY: a row-major tensor of f64.
    let p = unsafe { wide.as_slice::<f64>() };
    let width = 2 * most + 1;
    let low = f64::NEG_INFINITY;
    let mut alphas = vec![low; (batch * steps * width) as usize];
    let mut losses = vec![0.0; batch as usize];
    let mut offset = 0usize;
    for b in 0..batch as usize {
        let (n, m) = (inputs[b] as usize, lengths[b] as usize);
        let start = if flat { offset } else { b * targets.sizes()[1] as usize };
        offset += m;
        let own = &labels_of[start..start + m];
        for &t in own {
            check!((0..labels).contains(&t), Index; "target {t} is not a label");
        }
        // Blanks stand between, before and after the targets.
        let label = |s: usize| if s.is_multiple_of(2) { blank } else { own[s / 2] };
        let at = |t: usize, s: usize| p[((t as i64 * batch + b as i64) * labels + label(s)) as usize];
        let alpha = &mut alphas[b * (steps * width) as usize..][..(steps * width) as usize];
        let w = width as usize;
        if n == 0 {
            losses[b] = if m == 0 { 0.0 } else { f64::INFINITY };
            continue;
        }
        alpha[0] = at(0, 0);
        if m > 0 {
            alpha[1] = at(0, 1);
        }
        for t in 1..n {
            for s in 0..2 * m + 1 {
                let before = &alpha[(t - 1) * w..][..w];
                let one = if s > 0 { before[s - 1] } else { low };
                let two = if s > 1 && label(s) != label(s - 2) { before[s - 2] } else { low };
                let sum = log_add(&[before[s], one, two]);
                alpha[t * w + s] = sum + at(t, s);
            }
        }
        let last = &alpha[(n - 1) * w..][..w];
        let ends = if m == 0 { log_add(&[last[0]]) } else { log_add(&[last[2 * m], last[2 * m - 1]]) };
        losses[b] = -ends;
    }
    let shaped = |values: &[f64], sizes: &[i64]| -> Result<Tensor> {
        copy::convert(&views::view(&factory::from_slice(values)?, sizes)?, x.dtype())
    };
    Ok((shaped(&losses, &[batch])?, shaped(&alphas, &[batch, steps, width])?).into())
}
