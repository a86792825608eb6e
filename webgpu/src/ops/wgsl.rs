//! WGSL that generated programs share.

/// 64-bit integers as two words, low first.
pub const LONG: &str = "
fn low(a: vec2<u32>) -> i32 { return bitcast<i32>(a.x); }
fn int_to_long(a: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(a), bitcast<u32>(a >> 31u)); }
fn add_long(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
 let l = a.x + b.x;
 return vec2<u32>(l, a.y + b.y + select(0u, 1u, l < a.x));
}
fn neg_long(a: vec2<u32>) -> vec2<u32> { return add_long(~a, vec2<u32>(1u, 0u)); }
fn sub_long(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return add_long(a, neg_long(b)); }
fn wide_product(a: u32, b: u32) -> vec2<u32> {
 let al = a & 0xffffu; let ah = a >> 16u; let bl = b & 0xffffu; let bh = b >> 16u;
 let ll = al * bl; let lh = al * bh; let hl = ah * bl;
 let middle = (ll >> 16u) + (lh & 0xffffu) + (hl & 0xffffu);
 return vec2<u32>((ll & 0xffffu) | (middle << 16u), ah * bh + (lh >> 16u) + (hl >> 16u) + (middle >> 16u));
}
fn mul_long(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
 let p = wide_product(a.x, b.x);
 return vec2<u32>(p.x, p.y + a.x * b.y + a.y * b.x);
}
fn eq_long(a: vec2<u32>, b: vec2<u32>) -> bool { return all(a == b); }
fn lt_long(a: vec2<u32>, b: vec2<u32>) -> bool {
 if (a.y != b.y) { return bitcast<i32>(a.y) < bitcast<i32>(b.y); }
 return a.x < b.x;
}
fn negative_long(a: vec2<u32>) -> bool { return (a.y >> 31u) == 1u; }
fn abs_long(a: vec2<u32>) -> vec2<u32> { return select(a, neg_long(a), negative_long(a)); }
";

/// Between the classes, and packed halves.
pub const CONVERSIONS: &str = "
fn long_to_f32(a: vec2<u32>) -> f32 {
 let m = abs_long(a);
 if (m.y == 0u && m.x < 0x1000000u) { return select(f32(m.x), -f32(m.x), negative_long(a)); }
 // The first 32 bits, with a last one that is set when anything was lost; then rounded to 24 here, since drivers differ in
 // how they round. What is converted in the end is exact, and so is the scale.
 var top = m.x; var exponent = 127u;
 if (m.y == 0u) {
  let n = countLeadingZeros(m.x);
  top = m.x << n; exponent -= n;
 } else {
  let n = 32u - countLeadingZeros(m.y);
  var lost = m.x;
  top = m.y;
  if (n < 32u) { top = (m.y << (32u - n)) | (m.x >> n); lost = m.x << (32u - n); }
  if (lost != 0u) { top |= 1u; }
  exponent += n;
 }
 let kept = top >> 8u; let rest = top & 0xffu;
 let up = rest > 0x80u || (rest == 0x80u && (kept & 1u) == 1u);
 let r = f32(kept + select(0u, 1u, up)) * bitcast<f32>((exponent + 8u) << 23u);
 return select(r, -r, negative_long(a));
}
fn f32_to_long(v: f32) -> vec2<u32> {
 let bits = bitcast<u32>(v);
 let exponent = i32((bits >> 23u) & 0xffu) - 127;
 if (exponent < 0) { return vec2<u32>(0u); }
 // What does not fit, and NaN, is the least integer, as x86 has it.
 if (exponent >= 63) { return vec2<u32>(0u, 0x80000000u); }
 let mantissa = (bits & 0x7fffffu) | 0x800000u;
 var r: vec2<u32>;
 if (exponent <= 23) { r = vec2<u32>(mantissa >> u32(23 - exponent), 0u); }
 else {
  let n = u32(exponent - 23);
  if (n >= 32u) { r = vec2<u32>(0u, mantissa << (n - 32u)); }
  else { r = vec2<u32>(mantissa << n, mantissa >> (32u - n)); }
 }
 return select(r, neg_long(r), (bits >> 31u) == 1u);
}
fn half_to_f32(h: u32) -> f32 {
 let sign = (h & 0x8000u) << 16u;
 let exponent = (h >> 10u) & 0x1fu;
 let mantissa = h & 0x3ffu;
 if (exponent == 31u) { return bitcast<f32>(sign | 0x7f800000u | (mantissa << 13u)); }
 if (exponent == 0u) {
  let r = f32(mantissa) * bitcast<f32>(0x33800000u);
  return select(r, -r, sign != 0u);
 }
 return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (mantissa << 13u));
}
fn f32_to_half(v: f32) -> u32 {
 let bits = bitcast<u32>(v);
 let sign = (bits >> 16u) & 0x8000u;
 let magnitude = bits & 0x7fffffffu;
 if (magnitude > 0x7f800000u) { return sign | 0x7e00u; }
 if (magnitude >= 0x477ff000u) { return sign | 0x7c00u; }
 if (magnitude < 0x38800000u) {
  let shift = 126u - (magnitude >> 23u);
  if (shift > 24u) { return sign; }
  let mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  let kept = mantissa >> shift;
  let lost = mantissa & ((1u << shift) - 1u);
  let middle = 1u << (shift - 1u);
  return sign | (kept + select(0u, 1u, lost > middle || (lost == middle && (kept & 1u) == 1u)));
 }
 let rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u);
 return sign | (rounded >> 13u);
}
fn f32_to_bfloat(v: f32) -> u32 {
 let bits = bitcast<u32>(v);
 if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0x7fc0u; }
 return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
";

/// Functions of floats that WGSL lacks.
pub const FUNCTIONS: &str = "
fn is_nan(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }
fn is_inf(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) == 0x7f800000u; }
fn max_f32(a: f32, b: f32) -> f32 {
 if (is_nan(a)) { return a; }
 if (is_nan(b)) { return b; }
 return select(b, a, a > b);
}
fn min_f32(a: f32, b: f32) -> f32 {
 if (is_nan(a)) { return a; }
 if (is_nan(b)) { return b; }
 return select(b, a, a < b);
}
// WGSL's own may err by 2^-11; these by a unit or two in the last place. Past the bound the reduction loses bits, and the
// driver's is not worse.
fn quarter(v: f32, shift: i32) -> f32 {
 let k = round(v * 0.63661977);
 let x = ((v - k * 1.5703125) - k * 4.837512969970703125e-4) - k * 7.54978995489188216e-8;
 let z = x * x;
 let q = (i32(k) + shift) & 3i;
 let s = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * x + x;
 let c = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
 let r = select(s, c, (q & 1i) == 1i);
 return select(r, -r, q >= 2i);
}
fn sin_f32(v: f32) -> f32 {
 if (abs(v) < 50000.0) { return quarter(v, 0i); }
 return sin(v);
}
fn cos_f32(v: f32) -> f32 {
 if (abs(v) < 50000.0) { return quarter(v, 1i); }
 return cos(v);
}
fn tanh_f32(v: f32) -> f32 {
 // Past this the result is 1 to the last bit, and exp overflows in some drivers.
 if (abs(v) > 15.0) { return sign(v); }
 return tanh(v);
}
fn pow_f32(a: f32, e: f32) -> f32 {
 if (e == 0.0 || a == 1.0) { return 1.0; }
 if (is_nan(a) || is_nan(e)) { return a + e; }
 if (a > 0.0) { return pow(a, e); }
 let whole = is_inf(e) || floor(e) == e;
 let odd = whole && !is_inf(e) && abs(e) < 16777216.0 && floor(e * 0.5) != e * 0.5;
 if (a == 0.0) {
  let r = select(0.0, 1.0 / abs(a), e < 0.0);
  return select(r, select(r, -r, (bitcast<u32>(a) >> 31u) == 1u), odd);
 }
 if (!whole) { return bitcast<f32>((bitcast<u32>(a) & 0u) | 0x7fc00000u); }
 let r = pow(-a, e);
 return select(r, -r, odd);
}
fn sigmoid(v: f32) -> f32 { return 1.0 / (1.0 + exp(-v)); }
";
