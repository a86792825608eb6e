//! Values of pointwise operators, with NaN, infinities and signed zeros.

use torchnative_engine::tensor::factory::from_slice;
use torchnative_engine::{DType, op, ops};

#[test]
fn division_of_integers_is_true_division() {
    ops::register_all();
    let q = op::div_Tensor.call((from_slice(&[-7i64, 1]).unwrap(), from_slice(&[2i64, 0]).unwrap())).unwrap();
    assert_eq!(q.dtype(), DType::Float);
    assert_eq!(unsafe { q.as_mut_slice::<f32>() }, [-3.5, f32::INFINITY]);
    let r = op::rsub_Scalar.call((from_slice(&[1i64, 5]).unwrap(), 3, 2)).unwrap();
    assert_eq!(unsafe { r.as_mut_slice::<i64>() }, [1, -7]);
    let s = op::add_Scalar.call((from_slice(&[1i64]).unwrap(), 0.5)).unwrap();
    assert_eq!((s.dtype(), unsafe { s.as_mut_slice::<f32>()[0] }), (DType::Float, 1.5));
}

#[test]
fn comparisons_follow_ieee() {
    ops::register_all();
    let x = from_slice(&[f32::NAN, -0.0, 1.0]).unwrap();
    let bits = |t: torchnative_engine::Tensor| unsafe { t.as_mut_slice::<bool>().to_vec() };
    assert_eq!(bits(op::eq_Tensor.call((&x, &x)).unwrap()), [false, true, true]);
    assert_eq!(bits(op::ne_Scalar.call((&x, 0)).unwrap()), [true, false, true]);
    assert_eq!(bits(op::ge_Scalar.call((&x, 0.0)).unwrap()), [false, true, true]);
}

#[test]
fn unary_functions_promote_integers_and_refuse_bool() {
    ops::register_all();
    let e = op::sqrt.call((from_slice(&[4i64, -1]).unwrap(),)).unwrap();
    assert_eq!(e.dtype(), DType::Float);
    let e = unsafe { e.as_mut_slice::<f32>() };
    assert!(e[0] == 2.0 && e[1].is_nan());
    let n = op::neg.call((from_slice(&[0.0f32]).unwrap(),)).unwrap();
    assert!(unsafe { n.as_mut_slice::<f32>()[0] }.is_sign_negative());
    assert!(op::neg.call((from_slice(&[true]).unwrap(),)).is_err());
    let s = op::sigmoid.call((from_slice(&[f64::NEG_INFINITY, 0.0]).unwrap(),)).unwrap();
    assert_eq!(unsafe { s.as_mut_slice::<f64>() }, [0.0, 0.5]);
}

#[test]
fn bitwise_and_logical() {
    ops::register_all();
    let x = from_slice(&[6i64, 0]).unwrap();
    let y = op::bitwise_xor_Scalar.call((&x, 3)).unwrap();
    assert_eq!(unsafe { y.as_mut_slice::<i64>() }, [5, 3]);
    let y = op::bitwise_not.call((&x,)).unwrap();
    assert_eq!(unsafe { y.as_mut_slice::<i64>() }, [-7, -1]);
    let n = op::logical_not.call((from_slice(&[f32::NAN, -0.0]).unwrap(),)).unwrap();
    assert_eq!(unsafe { n.as_mut_slice::<bool>() }, [false, true]);
    assert!(op::bitwise_not.call((from_slice(&[1.0f32]).unwrap(),)).is_err());
}
