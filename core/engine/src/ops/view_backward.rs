//! Gradients of views and selections: zeros with the gradient put where it came from.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::{Result, Tensor, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::select_backward, |a| spread(a, |z| op::select_int.call((z, a.int(2)?, a.int(3)?))));
    r.explicit(op::slice_backward, |a| {
        spread(a, |z| op::slice_Tensor.call((z, a.int(2)?, a.int(3)?, a.int(4)?, a.int(5)?)))
    });
    r.explicit(op::diagonal_backward, |a| {
        spread(a, |z| op::diagonal.call((z, a.int(2)?, a.int(3)?, a.int(4)?)))
    });
    r.implicit(op::index_select_backward, |a| {
        // grad, sizes, dim, index
        let zeros = zeros(a.tensor(0)?, a.int_list(1)?)?;
        Ok(op::index_add_.call((zeros, a.int(2)?, a.tensor(3)?, a.tensor(0)?))?.into())
    });
    r.explicit(op::unfold_backward, unfold_backward);
    r.implicit(op::sum_to_size, sum_to_size);
    r.implicit(op::embedding_backward, |a| {
        // grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse
        crate::check!(!a.bool(5)?, NotImplemented; "sparse gradients of embedding are not implemented in torchnative");
        let args = (a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.int(3)?, a.bool(4)?);
        Ok(op::embedding_dense_backward.call(args)?.into())
    });
    r.implicit(op::value_selecting_reduction_backward, |a| {
        // grad, dim, indices, sizes, keepdim
        let (mut grad, mut indices) = (a.tensor(0)?.clone(), a.tensor(2)?.clone());
        let (dim, sizes) = (a.int(1)?, a.int_list(3)?);
        if !a.bool(4)? && !sizes.is_empty() {
            grad = op::unsqueeze.call((&grad, dim))?;
            indices = op::unsqueeze.call((&indices, dim))?;
        }
        Ok(op::scatter_add.call((zeros(&grad, sizes)?, dim, indices, grad))?.into())
    });
}

fn zeros(like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::zeros.call((sizes, like.dtype(), like.layout(), like.device()))
}

/// Zeros of the sizes in argument 1, with the gradient copied to a view of them.
fn spread(a: Args<'_>, view: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Returns> {
    let out = zeros(a.tensor(0)?, a.int_list(1)?)?;
    op::copy_.call((view(&out)?, a.tensor(0)?))?;
    Ok(out.into())
}

/// unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor
fn unfold_backward(a: Args<'_>) -> Result<Returns> {
    let (grad, sizes) = (a.tensor(0)?, a.int_list(1)?);
    let dim = crate::tensor::shape::wrap_dim(a.int(2)?, sizes.len())? as i64;
    let n = sizes.get(dim as usize).copied().unwrap_or(1);
    let places = op::unfold.call((op::arange.call((n,))?, 0, a.int(3)?, a.int(4)?))?;
    let places = op::reshape.call((places, [-1]))?;
    // The windows' dimension comes last: it joins the windows' count.
    let joined = op::flatten_using_ints.call((op::movedim_int.call((grad, -1, dim + 1))?, dim, dim + 1))?;
    let joined = if sizes.is_empty() { op::reshape.call((grad, [0i64; 0]))? } else { joined };
    Ok(op::index_add_.call((zeros(grad, sizes)?, dim, places, joined))?.into())
}

/// sum_to_size(Tensor self, SymInt[] size) -> Tensor: the sum over the dimensions that a broadcast from `size` made.
fn sum_to_size(a: Args<'_>) -> Result<Returns> {
    let (t, size) = (a.tensor(0)?, a.int_list(1)?);
    if size.is_empty() {
        return Ok(op::sum.call((t,))?.into());
    }
    let extra = t.dim() as i64 - size.len() as i64;
    let fits = extra >= 0
        && t.sizes()[extra.max(0) as usize..].iter().zip(size).all(|(have, want)| have == want || *want == 1);
    crate::check!(fits, "size {{{:?}}} is not expandable to size {{{:?}}}.", size, t.sizes());
    let mut over: crate::ivalue::IntList = (0..extra).collect();
    over.extend(
        (extra..t.dim() as i64).filter(|d| size[(d - extra) as usize] == 1 && t.sizes()[*d as usize] != 1),
    );
    if over.is_empty() {
        return Ok(t.into());
    }
    let mut out = t.clone();
    if !over.is_empty() {
        out = op::sum_dim_IntList.call((&out, over, true))?;
    }
    if extra > 0 {
        out = op::view.call((out, size))?;
    }
    Ok(out.into())
}
