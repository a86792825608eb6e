//! Losses that pick classes by index.

use crate::{Element, Result, Tensor, check};
use num_traits::Float;

/// Negative log-likelihood of `shape` = (rows, classes, places): all tensors are row-major, the target int64, the others of `F`.
/// `loss` receives one value for each row and place, or their sum or mean over the weights in `total`.
///
/// # Errors
/// A target that is no class.
pub(crate) fn nll<F: Float + Element>(
    x: &Tensor,
    y: &Tensor,
    w: Option<&Tensor>,
    [rows, classes, places]: [i64; 3],
    ignore: i64,
    each: bool,
    mean: bool,
    loss: &Tensor,
    total: &Tensor,
) -> Result<()> {
    // SAFETY: the caller's contract.
    let (x, y) = unsafe { (x.as_slice::<F>(), y.as_slice::<i64>()) };
    // SAFETY: as above.
    let w = w.map(|w| unsafe { w.as_slice::<F>() });
    // SAFETY: as above; both are fresh.
    let (loss, total) = unsafe { (loss.as_mut_slice::<F>(), total.as_mut_slice::<F>()) };
    let (mut sum, mut weights) = (0.0f64, 0.0f64);
    for i in 0..(rows * places) as usize {
        let target = y[i];
        if target == ignore {
            if each {
                loss[i] = F::zero();
            }
            continue;
        }
        check!((0..classes).contains(&target), Index; "Target {target} is out of bounds.");
        let (row, place) = (i as i64 / places, i as i64 % places);
        let value = x[((row * classes + target) * places + place) as usize];
        let weight = w.map_or(F::one(), |w| w[target as usize]);
        let own = -(value * weight);
        if each {
            loss[i] = own;
        } else {
            sum += own.to_f64().unwrap_or(f64::NAN);
            weights += weight.to_f64().unwrap_or(f64::NAN);
        }
    }
    let of = |v: f64| F::from(v).unwrap_or_else(F::nan);
    total[0] = of(weights);
    if !each {
        loss[0] = of(if mean { sum / weights } else { sum });
    }
    Ok(())
}

/// The loss of each row of a (rows, classes) input: how far other classes come within `margin` of the target's.
///
/// # Errors
/// A target that is no class.
pub(crate) fn multi_margin<F: Float + Element>(
    x: &Tensor,
    y: &Tensor,
    w: Option<&Tensor>,
    rows: i64,
    classes: i64,
    square: bool,
    margin: f64,
) -> Result<Vec<f64>> {
    // SAFETY: row-major tensors of these types.
    let (x, y) = unsafe { (x.as_slice::<F>(), y.as_slice::<i64>()) };
    // SAFETY: as above.
    let w = w.map(|w| unsafe { w.as_slice::<F>() });
    let wide = |v: F| v.to_f64().unwrap_or(f64::NAN);
    let mut out = Vec::with_capacity(rows as usize);
    for r in 0..rows as usize {
        let target = y[r];
        check!((0..classes).contains(&target), "target out of range");
        let row = &x[r * classes as usize..(r + 1) * classes as usize];
        let own = wide(row[target as usize]);
        let mut sum = 0.0;
        for (c, v) in row.iter().enumerate() {
            let z = margin - own + wide(*v);
            if c as i64 != target && z > 0.0 {
                let h = if square { z * z } else { z };
                sum += w.map_or(1.0, |w| wide(w[target as usize])) * h;
            }
        }
        out.push(sum / classes as f64);
    }
    Ok(out)
}

/// The loss of each row of a (rows, classes) input whose targets are the classes before the first negative entry; `marks` receives
/// one for each target class.
///
/// # Errors
/// A target that is no class.
pub(crate) fn multilabel<F: Float + Element>(
    x: &Tensor,
    y: &Tensor,
    rows: i64,
    classes: i64,
    marks: &Tensor,
) -> Result<Vec<f64>> {
    // SAFETY: row-major tensors of these types; the marks are fresh.
    let (x, y, marks) = unsafe { (x.as_slice::<F>(), y.as_slice::<i64>(), marks.as_mut_slice::<F>()) };
    let wide = |v: F| v.to_f64().unwrap_or(f64::NAN);
    check!(y.iter().all(|t| (-1..classes).contains(t)), "argument #2 'target' is out of range");
    let n = classes as usize;
    marks.fill(F::zero());
    let mut out = Vec::with_capacity(rows as usize);
    for r in 0..rows as usize {
        let (row, targets, marks) = (&x[r * n..][..n], &y[r * n..][..n], &mut marks[r * n..][..n]);
        let own: Vec<usize> = targets.iter().take_while(|t| **t >= 0).map(|t| *t as usize).collect();
        for &t in &own {
            marks[t] = F::one();
        }
        let mut sum = 0.0;
        for &t in &own {
            for c in 0..n {
                let z = 1.0 - wide(row[t]) + wide(row[c]);
                if marks[c] == F::zero() && z > 0.0 {
                    sum += z;
                }
            }
        }
        out.push(sum / n as f64);
    }
    Ok(out)
}
