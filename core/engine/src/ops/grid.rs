//! Sampling at given places: `grid_sampler` and the grids of affine maps.

use crate::cpu::grid::{Interpolation, Padding, sample};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::{DType, Error, Result, Scalar, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::grid_sampler_2d, |a| meta(a, 2), |a, o| fill(a, 2, o))
        .structured(op::_grid_sampler_2d_cpu_fallback, |a| meta(a, 2), |a, o| fill(a, 2, o))
        .structured(op::grid_sampler_3d, |a| meta(a, 3), |a, o| fill(a, 3, o))
        .implicit(op::grid_sampler, |a| {
            check_common(a)?;
            let id = if a.tensor(0)?.dim() == 4 { op::grid_sampler_2d } else { op::grid_sampler_3d };
            Ok(id.call(crate::Stack::from_iter(a.0.iter().cloned()))?.into())
        })
        .explicit(op::affine_grid_generator, affine_grid);
}

fn check_common(a: Args<'_>) -> Result<()> {
    let (x, g) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        x.device() == g.device(),
        "grid_sampler(): expected input and grid to be on same device, but input is on {} and grid is on {}",
        x.device(),
        g.device()
    );
    check!(
        x.dim() > 0 && g.dim() > 0 && x.sizes()[0] == g.sizes()[0],
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {:?} and grid with sizes {:?}",
        x.sizes(),
        g.sizes()
    );
    check!(
        g.sizes()[g.dim() - 1] == x.dim() as i64 - 2,
        "grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes {:?}",
        x.dim() as i64 - 2,
        g.sizes()
    );
    check!(
        matches!(x.dim(), 4 | 5) && x.dim() == g.dim(),
        "grid_sampler(): expected {} input and grid with same number of dimensions, but got input with sizes {:?} and grid with \
         sizes {:?}",
        if matches!(x.dim(), 4 | 5) { format!("{}D", x.dim()) } else { "4D or 5D".to_string() },
        x.sizes(),
        g.sizes()
    );
    for d in 2..x.dim() {
        check!(
            x.sizes()[d] > 0,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {:?} with dimension {d} being \
             empty",
            x.sizes()
        );
    }
    Ok(())
}

/// grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
fn meta(a: Args<'_>, rank: usize) -> Result<Specs> {
    check_common(a)?;
    let (x, g) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        x.dim() == rank + 2,
        "grid_sampler_{rank}d(): expected {}D input, but got input with sizes {:?}",
        rank + 2,
        x.sizes()
    );
    let mut sizes = IntList::from_slice(&x.sizes()[..2]);
    sizes.extend_from_slice(&g.sizes()[1..rank + 1]);
    Ok(OutSpec::like(x, sizes).into())
}

fn fill(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let (x, g, align) = (a.tensor(0)?, a.tensor(1)?, a.bool(4)?);
    let how = match a.int(2)? {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        2 => Interpolation::Cubic,
        n => bail!(Runtime, "grid_sampler(): unknown interpolation mode {n}"),
    };
    let padding = match a.int(3)? {
        0 => Padding::Zeros,
        1 => Padding::Border,
        2 => Padding::Reflection,
        n => bail!(Runtime, "grid_sampler(): unknown padding mode {n}"),
    };
    let name = if rank == 2 { "grid_sampler_2d_cpu_kernel_impl" } else { "grid_sampler3d_cpu" };
    if !matches!(x.dtype(), DType::Float | DType::Double | DType::Half | DType::BFloat16) {
        return Err(Error::dtype_not_implemented(name, x.dtype()));
    }
    check!(
        g.dtype() == x.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().scalar_type_name(),
        g.dtype().scalar_type_name()
    );
    if out[0].numel() == 0 {
        return Ok(());
    }
    dispatch!(name, x.dtype(), floating, T => sample::<T>(x, g, rank, how, padding, align, &out[0]));
    Ok(())
}

/// affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor
fn affine_grid(a: Args<'_>) -> Result<Returns> {
    let (theta, size, align) = (a.tensor(0)?, a.int_list(1)?, a.bool(2)?);
    check!(matches!(size.len(), 4 | 5), "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
    let rank = size.len() - 2;
    let spatial = &size[2..];
    let places: i64 = spatial.iter().product();
    // Coordinates of every place, the last dimension's first, and a one.
    let mut columns = Vec::new();
    for d in (0..rank).rev() {
        let n = spatial[d];
        let line = if n <= 1 {
            op::zeros.call(([n], theta.dtype(), (), theta.device()))?
        } else {
            let ends = (Scalar::Float(-1.0), Scalar::Float(1.0), n, theta.dtype(), (), theta.device());
            let line = op::linspace.call(ends)?;
            if align {
                line
            } else {
                op::mul_Scalar.call((line, Scalar::Float((n - 1) as f64 / n as f64)))?
            }
        };
        let mut one = IntList::from_elem(1, rank);
        one[d] = n;
        let wide = op::expand.call((op::view.call((line, one))?, spatial))?;
        columns.push(op::reshape.call((wide, [places, 1]))?);
    }
    columns.push(op::ones.call(([places, 1], theta.dtype(), (), theta.device()))?);
    let base = op::cat.call((columns, 1))?;
    let batch = size[0];
    let base = op::expand.call((op::unsqueeze.call((base, 0))?, [batch, places, rank as i64 + 1]))?;
    let grid = op::bmm.call((base, op::transpose_int.call((theta, 1, 2))?))?;
    let mut sizes = IntList::from_slice(&[batch]);
    sizes.extend_from_slice(spatial);
    sizes.push(rank as i64);
    Ok(op::view.call((grid, sizes))?.into())
}
