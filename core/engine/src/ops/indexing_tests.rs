//! Values of indexing operators, as upstream gives them.

use crate::ivalue::IValue;
use crate::tensor::factory::from_slice;
use crate::{Error, ErrorKind, Result, Tensor, op, ops};

/// 0..12 as a 3×4 matrix of float32.
fn grid() -> Result<Tensor> {
    ops::register_all();
    let v: Vec<f32> = (0..12).map(|i| i as f32).collect();
    op::view.call((from_slice(&v)?, [3, 4]))
}

fn values(t: &Tensor) -> Result<Vec<f32>> {
    let t = op::contiguous.call((t,))?;
    // SAFETY: a contiguous tensor of float32.
    Ok(unsafe { t.as_slice::<f32>() }.to_vec())
}

fn index(t: &Tensor, at: Vec<Option<Tensor>>) -> Result<Tensor> {
    op::index_Tensor.call((t, IValue::OptTensorList(at)))
}

#[test]
fn index_adjacent_and_apart() -> Result<()> {
    let x = grid()?;
    let rows = from_slice(&[2i64, -3])?;
    let picked = index(&x, vec![Some(rows.clone()), Some(from_slice(&[1i64, 3])?)])?;
    assert_eq!(values(&picked)?, [9.0, 3.0]);
    let columns = index(&x, vec![None, Some(from_slice(&[3i64, 0])?)])?;
    assert_eq!(columns.sizes(), [3, 2]);
    assert_eq!(values(&columns)?, [3.0, 0.0, 7.0, 4.0, 11.0, 8.0]);
    // Indices with a gap between them put their dimension first.
    let cube = op::view.call((&x, [2, 3, 2]))?;
    let apart = index(&cube, vec![Some(from_slice(&[1i64])?), None, Some(from_slice(&[0i64, 1, 0])?)])?;
    assert_eq!(apart.sizes(), [3, 3]);
    assert_eq!(values(&apart)?, [6.0, 8.0, 10.0, 7.0, 9.0, 11.0, 6.0, 8.0, 10.0]);
    Ok(())
}

#[test]
fn index_by_mask_and_errors() -> Result<()> {
    let x = grid()?;
    let picked = index(&x, vec![Some(from_slice(&[true, false, true])?)])?;
    assert_eq!(values(&picked)?, [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]);
    let error: Error = index(&x, vec![Some(from_slice(&[5i64])?)]).expect_err("out of bounds");
    assert!(matches!(error.kind, ErrorKind::Index));
    assert_eq!(error.message, "index 5 is out of bounds for dimension 0 with size 3");
    Ok(())
}

#[test]
fn index_put_accumulates() -> Result<()> {
    let x = grid()?;
    let at = vec![Some(from_slice(&[0i64, 0])?), Some(from_slice(&[1i64, 1])?)];
    let add = from_slice(&[10.0f32, 20.0])?;
    let out = op::index_put.call((&x, IValue::OptTensorList(at), add, true))?;
    assert_eq!(values(&out)?[..4], [0.0, 31.0, 2.0, 3.0]);
    assert_eq!(values(&x)?[1], 1.0);
    Ok(())
}

#[test]
fn gather_and_scatter() -> Result<()> {
    let x = grid()?;
    let at = op::view.call((from_slice(&[3i64, 0, 1, 1, 2, 2])?, [3, 2]))?;
    assert_eq!(values(&op::gather.call((&x, 1, &at))?)?, [3.0, 0.0, 5.0, 5.0, 10.0, 10.0]);
    let sum = op::scatter_add.call((&x, 1, &at, &x))?;
    assert_eq!(values(&sum)?, [1.0, 1.0, 2.0, 3.0, 4.0, 14.0, 6.0, 7.0, 8.0, 9.0, 27.0, 11.0]);
    let one = from_slice(&[1i64, 2, 3])?;
    let src = from_slice(&[5i64, 7, -3])?;
    let mean = op::scatter_reduce_two.call((&one, 0, from_slice(&[0i64, 0, 1])?, src, "mean"))?;
    // SAFETY: a contiguous tensor of int64.
    assert_eq!(unsafe { mean.as_slice::<i64>() }, [4, -1, 3]);
    Ok(())
}

#[test]
fn join_flip_and_pad() -> Result<()> {
    let x = grid()?;
    let row = op::slice_Tensor.call((&x, 0, 0i64, 1i64))?;
    let joined = op::cat.call((vec![row.clone(), op::flip.call((&row, [1]))?], 1))?;
    assert_eq!(values(&joined)?, [0.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 0.0]);
    assert_eq!(values(&op::roll.call((&row, [1], [1]))?)?, [3.0, 0.0, 1.0, 2.0]);
    let padded = op::constant_pad_nd.call((&row, [1, -2], 9i64))?;
    assert_eq!(values(&padded)?, [9.0, 0.0, 1.0]);
    let mask = op::reshape.call((from_slice(&[true, false, false, true])?, [1, 4]))?;
    assert_eq!(values(&op::masked_fill_Scalar.call((&row, &mask, -1i64))?)?, [-1.0, 1.0, 2.0, -1.0]);
    assert_eq!(
        values(&op::where_self.call((
            &mask,
            &row,
            &joined.alias_with([1, 4].as_slice().into(), [8, 1].as_slice().into(), 4)
        ))?)?,
        [0.0, 2.0, 1.0, 3.0]
    );
    assert_eq!(op::nonzero.call((&mask,))?.strides(), [1, 2]);
    Ok(())
}
