//! Sums of products by labelled dimensions: `einsum`, `tensordot`, `bilinear`, `kron`, chains of matrix products.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::{Result, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::einsum, |a| Ok(einsum(a.str(0)?, a.tensor_list(1)?, a.opt_int_list(2)?)?.into()))
        .implicit(op::tensordot, |a| {
            Ok(tensordot(a.tensor(0)?, a.tensor(1)?, a.int_list(2)?, a.int_list(3)?)?.into())
        })
        .implicit(op::kron, |a| Ok(kron(a.tensor(0)?, a.tensor(1)?)?.into()))
        .implicit(op::bilinear, bilinear)
        .explicit(op::_trilinear, trilinear)
        .implicit(op::chain_matmul, |a| {
            let list = a.tensor_list(0)?;
            for t in list {
                check!(t.dim() == 2, "Tensor dimension is {}, expected 2 instead.", t.dim());
            }
            check!(!list.is_empty(), "chain_matmul(): Expected one or more matrices");
            if let [only] = list {
                return Ok(only.clone().into());
            }
            Ok(op::linalg_multi_dot.call((list,))?.into())
        })
        .implicit(op::linalg_multi_dot, |a| Ok(multi_dot(a.tensor_list(0)?)?.into()))
        .implicit(op::inner, inner);
}

/// The label of an ellipsis; letters come before it.
const ELLIPSIS: u8 = 52;

fn label(c: char) -> Option<u8> {
    match c {
        'A'..='Z' => Some(c as u8 - b'A'),
        'a'..='z' => Some(c as u8 - b'a' + 26),
        _ => None,
    }
}

fn letter(l: u8) -> char {
    (if l < 26 { b'A' + l } else { b'a' + l - 26 }) as char
}

fn text(l: u8) -> String {
    if l == ELLIPSIS { "...".to_string() } else { letter(l).to_string() }
}

/// The labels of one side of an equation, operand by operand.
fn labels(side: &str, offset: usize, operands: usize) -> Result<Vec<Vec<u8>>> {
    let mut out: Vec<Vec<u8>> = vec![Vec::new()];
    let chars: Vec<char> = side.chars().collect();
    let mut i = 0;
    while i < chars.len() {
        let last = out.len() - 1;
        match chars[i] {
            ' ' => {}
            '.' => {
                check!(
                    !out[last].contains(&ELLIPSIS),
                    "einsum(): found '.' for operand {last} for which an ellipsis was already found"
                );
                check!(
                    chars[i..].starts_with(&['.', '.', '.']),
                    "einsum(): found '.' for operand {last} that is not part of any ellipsis"
                );
                out[last].push(ELLIPSIS);
                i += 2;
            }
            ',' => {
                out.push(Vec::new());
                check!(
                    out.len() <= operands,
                    "einsum(): fewer operands were provided than specified in the equation"
                );
            }
            c => match label(c) {
                Some(l) => out[last].push(l),
                None => bail!(
                    Runtime,
                    "einsum(): invalid subscript given at index {} in the equation string, subscripts must be in [a-zA-Z]",
                    i + offset
                ),
            },
        }
        i += 1;
    }
    Ok(out)
}

fn einsum(equation: &str, operands: &[Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    check!(!operands.is_empty(), "einsum(): must provide at least one operand");
    let (left, right) = match equation.find("->") {
        Some(i) => (&equation[..i], Some(&equation[i + 2..])),
        None => (equation, None),
    };
    let inputs = labels(left, 0, operands.len())?;
    check!(
        inputs.len() == operands.len(),
        "einsum(): more operands were provided than specified in the equation"
    );
    let (mut counts, mut ellipsis) = ([0usize; 53], 0usize);
    for (i, (own, t)) in inputs.iter().zip(operands).enumerate() {
        let named = own.iter().filter(|l| **l != ELLIPSIS).count();
        let has_ellipsis = named != own.len();
        check!(
            if has_ellipsis { named <= t.dim() } else { named == t.dim() },
            "einsum(): the number of subscripts in the equation ({named}) {} for operand {i}{}",
            if has_ellipsis {
                format!("is more than the number of dimensions ({})", t.dim())
            } else {
                format!("does not match the number of dimensions ({})", t.dim())
            },
            if has_ellipsis { "" } else { " and no ellipsis was given" }
        );
        if has_ellipsis {
            ellipsis = ellipsis.max(t.dim() - named);
        }
        own.iter().for_each(|l| counts[*l as usize] += 1);
    }
    // Where each label's dimension lies in the common order: the output's labels, then those summed over.
    let mut place: [Option<usize>; 53] = [None; 53];
    let mut rank = 0;
    let mut ellipsis_at = 0;
    let mut ellipsis_seen = false;
    match right {
        None => {
            // The ellipsis, then labels seen once, in alphabetical order.
            if counts[ELLIPSIS as usize] > 0 {
                ellipsis_seen = true;
                rank = ellipsis;
            }
            for l in 0..ELLIPSIS as usize {
                if counts[l] == 1 {
                    place[l] = Some(rank);
                    rank += 1;
                }
            }
        }
        Some(side) => {
            let out = labels(side, left.chars().count() + 2, 1).map_err(|e| {
                if e.message.contains("fewer operands") {
                    crate::Error::runtime(format!(
                        "einsum(): invalid subscript given at index {} in the equation string, subscripts must be in [a-zA-Z]",
                        left.chars().count() + 2 + side.find(',').unwrap_or(0)
                    ))
                } else {
                    e
                }
            })?;
            for &l in &out[0] {
                if l == ELLIPSIS {
                    check!(
                        !ellipsis_seen,
                        "einsum(): found '.' for output but an ellipsis (...) was already found"
                    );
                    ellipsis_seen = true;
                    ellipsis_at = rank;
                    rank += ellipsis;
                    continue;
                }
                check!(
                    place[l as usize].is_none(),
                    "einsum(): output subscript {} appears more than once in the output",
                    letter(l)
                );
                check!(
                    counts[l as usize] > 0,
                    "einsum(): output subscript {} does not appear in the equation for any input operand",
                    letter(l)
                );
                place[l as usize] = Some(rank);
                rank += 1;
            }
        }
    }
    let kept = rank;
    if !ellipsis_seen && counts[ELLIPSIS as usize] > 0 {
        // An ellipsis that the output leaves out is summed over.
        ellipsis_at = rank;
        rank += ellipsis;
    }
    for l in 0..ELLIPSIS as usize {
        if counts[l] > 0 && place[l].is_none() {
            place[l] = Some(rank);
            rank += 1;
        }
    }
    let mut ops = Vec::with_capacity(operands.len());
    for (i, (own, t)) in inputs.iter().zip(operands).enumerate() {
        ops.push(aligned(i, own, t, &place, ellipsis, ellipsis_at, rank)?);
    }
    // How many operands have each dimension.
    let mut uses = vec![0usize; rank];
    let mut sizes = vec![1i64; rank];
    for (i, t) in ops.iter().enumerate() {
        for d in 0..rank {
            let n = t.sizes()[d];
            if n == 1 {
                continue;
            }
            check!(
                sizes[d] == 1 || sizes[d] == n,
                "einsum(): subscript {} has size {n} for operand {i} which does not broadcast with previously seen size {}",
                (0..ELLIPSIS).find(|l| place[*l as usize] == Some(d)).map_or("...".to_string(), text),
                sizes[d]
            );
            sizes[d] = n;
            uses[d] += 1;
        }
    }
    if let Some(p) = path {
        check!(
            p.len() == 2 * (ops.len() - 1),
            "einsum(): expected contraction path given in path parameter to have size {} but got {}",
            2 * (ops.len() - 1),
            p.len()
        );
    }
    let count = ops.len();
    let mut step = 0;
    while ops.len() > 1 {
        let (mut i, mut j) = match path {
            Some(p) => (p[2 * step], p[2 * step + 1]),
            None => (0, 1),
        };
        if i > j {
            std::mem::swap(&mut i, &mut j);
        }
        check!(
            i >= 0 && i != j && (j as usize) < ops.len(),
            "einsum(): got invalid contraction path at step {step}: ({i}, {j})"
        );
        step += 1;
        let mut b = ops.remove(j as usize);
        let mut a = ops.remove(i as usize);
        let (mut both, mut only_a, mut only_b) = (IntList::new(), IntList::new(), IntList::new());
        for d in kept..rank {
            let (in_a, in_b) = (a.sizes()[d] != 1, b.sizes()[d] != 1);
            if in_a && in_b {
                uses[d] -= 1;
                if uses[d] == 1 {
                    both.push(d as i64);
                    uses[d] = 0;
                }
            } else if uses[d] == 1 && (in_a || in_b) {
                if in_a {
                    only_a.push(d as i64);
                } else {
                    only_b.push(d as i64);
                }
                uses[d] = 0;
            }
        }
        if !only_a.is_empty() {
            a = op::sum_dim_IntList.call((a, only_a, true))?;
        }
        if !only_b.is_empty() {
            b = op::sum_dim_IntList.call((b, only_b, true))?;
        }
        let product = sum_of_products(&a, &b, &both)?;
        if path.is_some() {
            ops.push(product);
        } else {
            ops.insert(0, product);
        }
    }
    let out = ops.remove(0);
    if rank == kept {
        return Ok(out);
    }
    if count > 1 {
        // What was summed over has size one.
        return op::view.call((&out, &out.sizes()[..kept]));
    }
    let dims: IntList = (kept as i64..rank as i64).collect();
    op::sum_dim_IntList.call((out, dims))
}

/// An operand with its dimensions in the common order: repeated labels become diagonals, absent ones size one.
fn aligned(
    index: usize,
    own: &[u8],
    t: &Tensor,
    place: &[Option<usize>; 53],
    ellipsis: usize,
    ellipsis_at: usize,
    rank: usize,
) -> Result<Tensor> {
    let named = own.iter().filter(|l| **l != ELLIPSIS).count();
    let wide = t.dim() - named;
    let mut order: Vec<Option<i64>> = vec![None; rank];
    let mut seen: [Option<usize>; 53] = [None; 53];
    let mut out = t.clone();
    let mut d = 0;
    for &l in own {
        if l == ELLIPSIS {
            // Missing leading dimensions of the ellipsis have size one.
            for k in 0..wide {
                order[ellipsis_at + ellipsis - wide + k] = Some(d);
                d += 1;
            }
            continue;
        }
        if let Some(first) = seen[l as usize] {
            let (a, b) = (out.sizes()[first], out.sizes()[d as usize]);
            check!(
                a == b,
                "einsum(): subscript {} is repeated for operand {index} but the sizes don't match, {b} != {a}",
                letter(l)
            );
            out = op::diagonal.call((&out, 0, first as i64, d))?;
            out = op::movedim_int.call((out, -1, first as i64))?;
            continue;
        }
        seen[l as usize] = Some(d as usize);
        if let Some(p) = place[l as usize] {
            order[p] = Some(d);
        }
        d += 1;
    }
    // Absent dimensions are appended and permuted into place.
    for o in &mut order {
        if o.is_none() {
            out = op::unsqueeze.call((out, d))?;
            *o = Some(d);
            d += 1;
        }
    }
    let order: IntList = order.into_iter().flatten().collect();
    op::permute.call((out, order))
}

/// The product of two tensors of one rank, summed over some dimensions (kept with size one), as one batched matrix product.
fn sum_of_products(left: &Tensor, right: &Tensor, sum: &[i64]) -> Result<Tensor> {
    if sum.is_empty() {
        return op::mul_Tensor.call((left, right));
    }
    let (mut left, mut right) = (left.clone(), right.clone());
    let rank = left.dim();
    let (mut both, mut only_left, mut only_right) = (IntList::new(), IntList::new(), IntList::new());
    let [mut nb, mut nl, mut nr, mut ns] = [1i64; 4];
    for d in 0..rank as i64 {
        let (l, r) = (left.sizes()[d as usize], right.sizes()[d as usize]);
        check!(l == 1 || r == 1 || l == r, "non-broadcast dimensions must match");
        if sum.contains(&d) {
            if l != 1 && r != 1 {
                ns *= l;
            } else if l != 1 {
                left = op::sum_dim_IntList.call((left, [d], true))?;
            } else if r != 1 {
                right = op::sum_dim_IntList.call((right, [d], true))?;
            }
        } else if l != 1 && r != 1 {
            both.push(d);
            nb *= l;
        } else if l != 1 {
            only_left.push(d);
            nl *= l;
        } else {
            only_right.push(d);
            nr *= r;
        }
    }
    // The right operand's own dimensions come first in the result: so does the right operand in the product.
    if let (Some(l), Some(r)) = (only_left.first(), only_right.last())
        && r < l
    {
        std::mem::swap(&mut left, &mut right);
        std::mem::swap(&mut only_left, &mut only_right);
        std::mem::swap(&mut nl, &mut nr);
    }
    let mut out_sizes = IntList::new();
    out_sizes.extend(both.iter().chain(&only_left).map(|d| left.sizes()[*d as usize]));
    out_sizes.extend(sum.iter().map(|_| 1));
    out_sizes.extend(only_right.iter().map(|d| right.sizes()[*d as usize]));
    let chain = |parts: [&[i64]; 4]| -> IntList { parts.concat().into() };
    let order_left = chain([&both, &only_left, sum, &only_right]);
    let order_right = chain([&both, sum, &only_right, &only_left]);
    let mut order_out = IntList::from_elem(0, rank);
    for (i, d) in order_left.iter().enumerate() {
        order_out[*d as usize] = i as i64;
    }
    let a = op::reshape.call((op::permute.call((&left, order_left))?, [nb, nl, ns]))?;
    let b = op::reshape.call((op::permute.call((&right, order_right))?, [nb, ns, nr]))?;
    let product = op::view.call((op::bmm.call((a, b))?, out_sizes))?;
    op::permute.call((product, order_out))
}

fn tensordot(x: &Tensor, y: &Tensor, dx: &[i64], dy: &[i64]) -> Result<Tensor> {
    check!(dx.len() == dy.len(), "both dimension lists should have same length");
    check!(x.dtype() == y.dtype(), "both inputs should have same dtype");
    let (mut x, mut y) = (x.clone(), y.clone());
    let mut contracted = 1;
    for (i, j) in dx.iter().zip(dy) {
        let (n, m) = (x.size(*i)?, y.size(*j)?);
        if m == 1 {
            x = op::sum_dim_IntList.call((x, [*i], true))?;
        } else if n == 1 {
            y = op::sum_dim_IntList.call((y, [*j], true))?;
        } else {
            check!(
                n == m,
                "contracted dimensions need to match, but first has size {n} in dim {i} and second has size {m} in dim {j}"
            );
            contracted *= n;
        }
    }
    let mask = |t: &Tensor, dims: &[i64]| crate::tensor::shape::dim_mask(Some(dims), t.dim(), true);
    let (mx, my) = (mask(&x, dx)?, mask(&y, dy)?);
    let free = |t: &Tensor, m: u64| {
        (0..t.dim()).filter(|d| m & (1 << d) == 0).map(|d| d as i64).collect::<IntList>()
    };
    let (fx, fy) = (free(&x, mx), free(&y, my));
    let wrap = |t: &Tensor, dims: &[i64]| -> Result<IntList> {
        dims.iter().map(|d| crate::tensor::shape::wrap_dim(*d, t.dim()).map(|d| d as i64)).collect()
    };
    let sizes_of =
        |t: &Tensor, dims: &[i64]| dims.iter().map(|d| t.sizes()[*d as usize]).collect::<IntList>();
    let (sx, sy) = (sizes_of(&x, &fx), sizes_of(&y, &fy));
    let (nx, ny): (i64, i64) = (sx.iter().product(), sy.iter().product());
    let mut px = fx;
    px.extend(wrap(&x, dx)?);
    let mut py = wrap(&y, dy)?;
    py.extend(fy);
    let a = op::reshape.call((op::permute.call((x, px))?, [nx, contracted]))?;
    let b = op::reshape.call((op::permute.call((y, py))?, [contracted, ny]))?;
    let mut out = sx;
    out.extend(sy);
    op::reshape.call((op::mm.call((a, b))?, out))
}

fn kron(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let n = x.dim().max(y.dim());
    let (mut sx, mut sy, mut out) = (IntList::new(), IntList::new(), IntList::new());
    let size = |t: &Tensor, d: usize| if d + t.dim() < n { 1 } else { t.sizes()[d + t.dim() - n] };
    for d in 0..n {
        sx.extend([size(x, d), 1]);
        sy.extend([1, size(y, d)]);
        out.push(size(x, d) * size(y, d));
    }
    let a = op::_unsafe_view.call((op::contiguous.call((x,))?, sx))?;
    let b = op::_unsafe_view.call((op::contiguous.call((y,))?, sy))?;
    op::_unsafe_view.call((op::mul_Tensor.call((a, b))?, out))
}

/// bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor
fn bilinear(a: Args<'_>) -> Result<Returns> {
    let (x, y, w, bias) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.opt_tensor(3));
    check!(x.dim() == y.dim(), "bilinear(): input dimensions do not match: got {} and {}", x.dim(), y.dim());
    let n = x.dim();
    check!(n > 0, Index; "dimension specified as -1 but tensor has no dimensions");
    for d in 0..n - 1 {
        check!(
            x.sizes()[d] == y.sizes()[d],
            "bilinear(): input batch dimensions do not match at dim {d}: got {} and {}",
            x.sizes()[d],
            y.sizes()[d]
        );
    }
    check!(w.dim() == 3, "bilinear(): weight must have three dimensions, got {}", w.dim());
    check!(
        x.sizes()[n - 1] == w.sizes()[1],
        "bilinear(): input1 size does not match weight size: got {} but expected {}",
        x.sizes()[n - 1],
        w.sizes()[1]
    );
    check!(
        y.sizes()[n - 1] == w.sizes()[2],
        "bilinear(): input2 size does not match weight size: got {} but expected {}",
        y.sizes()[n - 1],
        w.sizes()[2]
    );
    if let Some(b) = bias {
        check!(
            b.sizes().first() == Some(&w.sizes()[0]),
            "bilinear(): bias size does not match weight size: got {} but expected {}",
            b.sizes().first().copied().unwrap_or(0),
            w.sizes()[0]
        );
    }
    let mut out = IntList::from_slice(&x.sizes()[..n - 1]);
    out.push(w.sizes()[0]);
    let flat = |t: &Tensor| op::reshape.call((t, [t.sizes()[..n - 1].iter().product(), t.sizes()[n - 1]]));
    let product = op::_trilinear.call((flat(x)?, w, flat(y)?, [1, 3], [0], [1, 2], [2, 3]))?;
    let product = op::reshape.call((product, out))?;
    match bias {
        Some(b) => Ok(op::add_Tensor.call((product, b))?.into()),
        None => Ok(product.into()),
    }
}

/// _trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1)
fn trilinear(a: Args<'_>) -> Result<Returns> {
    let expanded = |t: usize, dims: usize| -> Result<Tensor> {
        let mut dims = IntList::from_slice(a.int_list(dims)?);
        dims.sort_unstable();
        let mut out = a.tensor(t)?.clone();
        for d in dims {
            out = op::unsqueeze.call((out, d))?;
        }
        Ok(out)
    };
    let (x, y, z) = (expanded(0, 3)?, expanded(1, 4)?, expanded(2, 5)?);
    let third = a.int_list(5)?;
    let (early, late): (Vec<i64>, Vec<i64>) = a.int_list(6)?.iter().partition(|d| third.contains(d));
    let product = sum_of_products(&sum_of_products(&x, &y, &early)?, &z, &late)?;
    let mut dims = IntList::from_slice(a.int_list(6)?);
    dims.sort_unstable();
    let mut out = product;
    for d in dims.iter().rev() {
        out = op::squeeze_dim.call((out, *d))?;
    }
    Ok(out.into())
}

fn multi_dot(list: &[Tensor]) -> Result<Tensor> {
    let n = list.len();
    check!(n >= 2, "multi_dot(): expected at least 2 tensors but got {n}");
    let mut mats = list.to_vec();
    let mut out = IntList::new();
    check!(
        matches!(list[0].dim(), 1 | 2),
        "multi_dot(): the first tensor must be 1D or 2D but got {}D",
        list[0].dim()
    );
    check!(
        matches!(list[n - 1].dim(), 1 | 2),
        "multi_dot(): the last tensor must be 1D or 2D but got {}D",
        list[n - 1].dim()
    );
    // A vector at either end is a matrix of one row or column, which the result loses again.
    if list[0].dim() == 1 {
        mats[0] = op::unsqueeze.call((&list[0], 0))?;
    } else {
        out.push(list[0].sizes()[0]);
    }
    if list[n - 1].dim() == 1 {
        mats[n - 1] = op::unsqueeze.call((&list[n - 1], -1))?;
    } else {
        out.push(list[n - 1].sizes()[1]);
    }
    for (i, t) in mats.iter().enumerate() {
        check!(t.dim() == 2, "multi_dot(): tensor {i} must be 2D but got {}D", t.dim());
        check!(
            t.dtype() == mats[0].dtype(),
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            mats[0].dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        );
    }
    for i in 0..n - 1 {
        check!(
            mats[i].sizes()[1] == mats[i + 1].sizes()[0],
            "multi_dot(): tensors {i} and {} with shapes {:?} and {:?} cannot be multiplied",
            i + 1,
            mats[i].sizes(),
            mats[i + 1].sizes()
        );
    }
    let product = cheapest(&mats)?;
    op::view.call((product, out))
}

/// The product of a chain in the order that needs the fewest multiplications.
fn cheapest(mats: &[Tensor]) -> Result<Tensor> {
    let n = mats.len();
    let mut dims: Vec<f64> = mats.iter().map(|m| m.sizes()[0] as f64).collect();
    dims.push(mats[n - 1].sizes()[1] as f64);
    let (mut cost, mut split) = (vec![vec![0.0; n]; n], vec![vec![0; n]; n]);
    for len in 1..n {
        for i in 0..n - len {
            let j = i + len;
            cost[i][j] = f64::INFINITY;
            for k in i..j {
                let c = cost[i][k] + cost[k + 1][j] + dims[i] * dims[k + 1] * dims[j + 1];
                if c < cost[i][j] {
                    (cost[i][j], split[i][j]) = (c, k);
                }
            }
        }
    }
    fn build(mats: &[Tensor], split: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
        if i == j {
            return Ok(mats[i].clone());
        }
        let k = split[i][j];
        op::mm.call((build(mats, split, i, k)?, build(mats, split, k + 1, j)?))
    }
    build(mats, &split, 0, n - 1)
}

/// inner(Tensor self, Tensor other) -> Tensor
fn inner(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    if x.dim() == 0 || y.dim() == 0 {
        return Ok(op::mul_Tensor.call((x, y))?.into());
    }
    check!(
        x.sizes()[x.dim() - 1] == y.sizes()[y.dim() - 1],
        "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
        x.sizes(),
        y.sizes()
    );
    Ok(tensordot(x, y, &[-1], &[-1])?.into())
}
