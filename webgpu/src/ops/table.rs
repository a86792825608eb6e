//! The expressions of the pointwise operators.

use super::pointwise::Body;

/// One operator's expressions. The numbers of inputs and of scalars, and whether the answer is a bool, are what the tests
/// make a program from; in use they come with the call.
#[cfg_attr(not(test), allow(dead_code, reason = "read by the tests"))]
pub struct Entry {
    pub name: &'static str,
    pub inputs: usize,
    pub numbers: usize,
    pub answers_bool: bool,
    pub body: Body,
}

macro_rules! entries {
    ($($constant:ident $name:literal ($inputs:literal, $numbers:literal) $bool:literal { $($class:ident: $e:literal),* })*) => {
        $(#[allow(clippy::needless_update, reason = "some entries have every class")]
        pub const $constant: Entry = Entry {
            name: $name, inputs: $inputs, numbers: $numbers, answers_bool: $bool,
            body: Body { $($class: $e,)* ..EMPTY },
        };)*
        /// All of them.
        #[cfg(test)]
        pub const ENTRIES: &[Entry] = &[$($constant),*];
    };
}

const EMPTY: Body = Body { float: "", int: "", long: "", bool: "" };

entries! {
    FILL "aten::fill_" (0, 1) false { float: "k0", int: "k0", long: "k0", bool: "k0" }
    ADD "aten::add.Tensor" (2, 1) false {
        float: "a0 + k0 * a1", int: "a0 + k0 * a1", long: "add_long(a0, mul_long(k0, a1))", bool: "a0 || (k0 && a1)" }
    SUB "aten::sub.Tensor" (2, 1) false {
        float: "a0 - k0 * a1", int: "a0 - k0 * a1", long: "sub_long(a0, mul_long(k0, a1))" }
    RSUB "aten::rsub.Tensor" (2, 1) false {
        float: "a0 - k0 * a1", int: "a0 - k0 * a1", long: "sub_long(a0, mul_long(k0, a1))" }
    MUL "aten::mul.Tensor" (2, 0) false {
        float: "a0 * a1", int: "a0 * a1", long: "mul_long(a0, a1)", bool: "a0 && a1" }
    DIV "aten::div.Tensor" (2, 0) false { float: "a0 / a1" }
    MAXIMUM "aten::maximum" (2, 0) false {
        float: "max_f32(a0, a1)", int: "max(a0, a1)", long: "select(a0, a1, lt_long(a0, a1))", bool: "a0 || a1" }
    MINIMUM "aten::minimum" (2, 0) false {
        float: "min_f32(a0, a1)", int: "min(a0, a1)", long: "select(a0, a1, lt_long(a1, a0))", bool: "a0 && a1" }
    EQ "aten::eq.Tensor" (2, 0) true {
        float: "a0 == a1", int: "a0 == a1", long: "eq_long(a0, a1)", bool: "a0 == a1" }
    // `!=` is an ordered comparison in SPIR-V: false for NaN.
    NE "aten::ne.Tensor" (2, 0) true {
        float: "!(a0 == a1)", int: "a0 != a1", long: "!eq_long(a0, a1)", bool: "a0 != a1" }
    LT "aten::lt.Tensor" (2, 0) true {
        float: "a0 < a1", int: "a0 < a1", long: "lt_long(a0, a1)", bool: "!a0 && a1" }
    LE "aten::le.Tensor" (2, 0) true {
        float: "a0 <= a1", int: "a0 <= a1", long: "!lt_long(a1, a0)", bool: "!a0 || a1" }
    GT "aten::gt.Tensor" (2, 0) true {
        float: "a0 > a1", int: "a0 > a1", long: "lt_long(a1, a0)", bool: "a0 && !a1" }
    GE "aten::ge.Tensor" (2, 0) true {
        float: "a0 >= a1", int: "a0 >= a1", long: "!lt_long(a0, a1)", bool: "a0 || !a1" }
    NEG "aten::neg" (1, 0) false { float: "-a0", int: "-a0", long: "neg_long(a0)" }
    ABS "aten::abs" (1, 0) false { float: "abs(a0)", int: "abs(a0)", long: "abs_long(a0)" }
    EXP "aten::exp" (1, 0) false { float: "exp(a0)" }
    LOG "aten::log" (1, 0) false { float: "log(a0)" }
    SQRT "aten::sqrt" (1, 0) false { float: "sqrt(a0)" }
    RSQRT "aten::rsqrt" (1, 0) false { float: "1.0 / sqrt(a0)" }
    RECIPROCAL "aten::reciprocal" (1, 0) false { float: "1.0 / a0" }
    SIN "aten::sin" (1, 0) false { float: "sin_f32(a0)" }
    COS "aten::cos" (1, 0) false { float: "cos_f32(a0)" }
    TANH "aten::tanh" (1, 0) false { float: "tanh_f32(a0)" }
    SIGMOID "aten::sigmoid" (1, 0) false { float: "sigmoid(a0)" }
    SILU "aten::silu" (1, 0) false { float: "a0 / (1.0 + exp(-a0))" }
    RELU "aten::relu" (1, 0) false {
        float: "select(a0, 0.0, a0 <= 0.0)", int: "max(a0, 0i)", long: "select(a0, vec2<u32>(0u), negative_long(a0))" }
    FLOOR "aten::floor" (1, 0) false { float: "floor(a0)", int: "a0", long: "a0" }
    CEIL "aten::ceil" (1, 0) false { float: "ceil(a0)", int: "a0", long: "a0" }
    POW "aten::pow.Tensor_Scalar" (2, 0) false { float: "pow_f32(a0, a1)" }
    AND "aten::bitwise_and.Tensor" (2, 0) false { int: "a0 & a1", long: "a0 & a1", bool: "a0 && a1" }
    OR "aten::bitwise_or.Tensor" (2, 0) false { int: "a0 | a1", long: "a0 | a1", bool: "a0 || a1" }
    XOR "aten::bitwise_xor.Tensor" (2, 0) false { int: "a0 ^ a1", long: "a0 ^ a1", bool: "a0 != a1" }
    NOT "aten::bitwise_not" (1, 0) false { int: "~a0", long: "~a0", bool: "!a0" }
    SILU_BACKWARD "aten::silu_backward" (2, 0) false {
        float: "a0 * sigmoid(a1) * (1.0 + a1 * (1.0 - sigmoid(a1)))" }
    TANH_BACKWARD "aten::tanh_backward" (2, 0) false { float: "a0 * (1.0 - a1 * a1)" }
    SIGMOID_BACKWARD "aten::sigmoid_backward" (2, 0) false { float: "a0 * (1.0 - a1) * a1" }
    THRESHOLD_BACKWARD "aten::threshold_backward" (2, 1) false { float: "select(a0, 0.0, a1 <= k0)" }
}
