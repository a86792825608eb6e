//! Reductions over any dimensions: one workgroup for each result, whose lanes fold strided parts and then each other.

use super::pointwise::{Class, load, narrow_store};
use super::wgsl;
use crate::device;
use crate::program::{Access, Program, Queue, fold_groups};
use std::fmt::Write;
use torchnative_engine::dispatch::Registry;
use torchnative_engine::{Args, DType, Result, Tensor, check, op};

/// How values are folded, for each class they are folded in.
struct Fold {
    name: &'static str,
    /// The start, and what folds `x` and `y`; empty where the class has no kernel.
    float: [&'static str; 2],
    long: [&'static str; 2],
    int: [&'static str; 2],
    bool: [&'static str; 2],
    /// The result of `x` folded from `n` values, in floats.
    finish: &'static str,
}

const SUM: Fold = Fold {
    name: "aten::sum",
    float: ["0.0", "x + y"],
    long: ["vec2<u32>(0u)", "add_long(x, y)"],
    int: ["0i", "x + y"],
    bool: ["", ""],
    finish: "x",
};
const MEAN: Fold = Fold {
    name: "aten::mean",
    float: ["0.0", "x + y"],
    long: ["", ""],
    int: ["", ""],
    bool: ["", ""],
    finish: "x / f32(n)",
};
const AMAX: Fold = Fold {
    name: "aten::amax",
    float: ["bitcast<f32>((p(0u) & 0u) | 0xff800000u)", "max_f32(x, y)"],
    long: ["vec2<u32>(0u, 0x80000000u)", "select(x, y, lt_long(x, y))"],
    int: ["bitcast<i32>(0x80000000u)", "max(x, y)"],
    bool: ["false", "x || y"],
    finish: "x",
};
const AMIN: Fold = Fold {
    name: "aten::amin",
    float: ["bitcast<f32>((p(0u) & 0u) | 0x7f800000u)", "min_f32(x, y)"],
    long: ["vec2<u32>(0xffffffffu, 0x7fffffffu)", "select(x, y, lt_long(y, x))"],
    int: ["0x7fffffffi", "min(x, y)"],
    bool: ["true", "x && y"],
    finish: "x",
};

const ANY: Fold = Fold {
    name: "aten::any",
    float: ["", ""],
    long: ["", ""],
    int: ["", ""],
    bool: ["false", "x || y"],
    finish: "x",
};
const ALL: Fold = Fold {
    name: "aten::all",
    float: ["", ""],
    long: ["", ""],
    int: ["", ""],
    bool: ["true", "x && y"],
    finish: "x",
};

/// Folds `t` over `dims` (all of them when there are none) into `out`, which is row-major over the other dimensions.
fn reduce(t: &Tensor, dims: Option<&[i64]>, fold: &Fold, out: &Tensor) -> Result<()> {
    let refuse = || {
        torchnative_engine::Error::new(
            torchnative_engine::ErrorKind::NotImplemented,
            format!(
                "{} is not implemented for device 'webgpu' with dtype {}",
                fold.name,
                t.dtype().torch_name()
            ),
        )
    };
    let (Some(from), Some(class)) = (Class::of(t.dtype()), Class::of(out.dtype())) else {
        return Err(refuse());
    };
    let [start, combine] = match class {
        Class::Float => fold.float,
        Class::Int => fold.int,
        Class::Long => fold.long,
        Class::Bool => fold.bool,
    };
    if combine.is_empty() {
        return Err(refuse());
    }
    check!(out.is_contiguous(), NotImplemented; "{} into a strided result is not implemented for device 'webgpu'", fold.name);
    if out.numel() == 0 {
        return Ok(());
    }
    let rank = t.dim() as i64;
    let all = dims.is_none_or(<[i64]>::is_empty);
    let reduced = |d: i64| all || dims.is_some_and(|v| v.iter().any(|&i| i == d || i + rank == d));
    // Innermost first, the kept dimensions and then the reduced ones.
    let (mut kept, mut folded) = (Vec::new(), Vec::new());
    for d in (0..rank).rev() {
        let pair = (t.sizes()[d as usize] as u32, t.strides()[d as usize] as u32);
        if reduced(d) { folded.push(pair) } else { kept.push(pair) }
    }
    let n: u64 = folded.iter().map(|(s, _)| *s as u64).product();
    let outs = out.numel() as u64;
    check!(n.max(outs) <= u32::MAX as u64, NotImplemented; "{} over {n} elements is not implemented for device 'webgpu'", fold.name);
    let mut params = vec![n as u32, outs as u32, t.storage_offset() as u32, out.storage_offset() as u32];
    for (size, stride) in kept.iter().chain(&folded) {
        params.extend([*size, *stride]);
    }
    params.resize(params.len().next_multiple_of(4), 0);
    let mut s = String::with_capacity(4096);
    let narrow = out.itemsize() < 4;
    let cell = if narrow { "atomic<u32>" } else { "u32" };
    let _ = writeln!(
        s,
        "@group(0) @binding(0) var<storage, read_write> b0: array<{cell}>;
@group(0) @binding(1) var<storage, read_write> b1: array<u32>;
@group(0) @binding(2) var<uniform> params: array<vec4<u32>, {}>;
fn p(i: u32) -> u32 {{ return params[i / 4u][i % 4u]; }}
fn r1(i: u32) -> u32 {{ return b1[i]; }}",
        params.len() / 4
    );
    s.push_str(wgsl::LONG);
    s.push_str(wgsl::CONVERSIONS);
    s.push_str(wgsl::FUNCTIONS);
    let ty = class.wgsl();
    let _ = writeln!(
        s,
        "var<workgroup> parts: array<{ty}, 64>;
fn fold(x: {ty}, y: {ty}) -> {ty} {{ return {combine}; }}
fn place(index: u32, first: u32, dims: u32) -> u32 {{
 var rest = index; var o = 0u;
 for (var d = 0u; d < dims; d++) {{
  let size = p(4u + 2u * (first + d));
  o += (rest % size) * p(5u + 2u * (first + d));
  rest = rest / size;
 }}
 return o;
}}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) num: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {{
 let result = id.x + id.y * num.x + id.z * num.x * num.y;
 let n = p(0u);
 let base = p(2u) + place(result, 0u, {kept}u);
 var x: {ty} = {start};
 if (result < p(1u)) {{
  for (var i = lane; i < n; i += 64u) {{
   let o = base + place(i, {kept}u, {folded}u);
   let a0 = {load};
   x = fold(x, {cast});
  }}
 }}
 parts[lane] = x;
 workgroupBarrier();
 for (var half = 32u; half > 0u; half = half >> 1u) {{
  if (lane < half) {{ parts[lane] = fold(parts[lane], parts[lane + half]); }}
  workgroupBarrier();
 }}
 if (lane != 0u || result >= p(1u)) {{ return; }}
 x = parts[0];
 let value: {ty} = {finish};
 let o = p(3u) + result;
{store}}}",
        kept = kept.len(),
        folded = folded.len(),
        load = load(t.dtype(), 1, "o"),
        cast = super::pointwise::cast(from, class),
        finish = if class == Class::Float { fold.finish } else { "x" },
        store = narrow_store(out.dtype()),
    );
    let program = Program {
        name: fold.name.into(),
        source: s.into(),
        bindings: vec![Access::ReadWrite; 2],
        params: (params.len() * 4) as u32,
    };
    let slices = [device::slice(out)?, device::slice_or_spare(t)?];
    device::with(|r| {
        let groups = fold_groups(outs, r.limits().max_compute_workgroups_per_dimension);
        r.dispatch(&program, &slices, &params, groups)
    })
}

pub(super) fn register(r: &mut Registry) {
    fn dims<'a>(a: Args<'a>) -> Result<Option<&'a [i64]>> {
        a.opt_int_list(1)
    }
    r.device_structured(op::sum, |a, o| reduce(a.tensor(0)?, None, &SUM, &o[0]));
    r.device_structured(op::sum_dim_IntList, |a, o| reduce(a.tensor(0)?, dims(a)?, &SUM, &o[0]));
    r.device_structured(op::mean, |a, o| reduce(a.tensor(0)?, None, &MEAN, &o[0]));
    r.device_structured(op::mean_dim, |a, o| reduce(a.tensor(0)?, dims(a)?, &MEAN, &o[0]));
    r.device_structured(op::amax, |a, o| reduce(a.tensor(0)?, dims(a)?, &AMAX, &o[0]));
    r.device_structured(op::amin, |a, o| reduce(a.tensor(0)?, dims(a)?, &AMIN, &o[0]));
    r.device_structured(op::max, |a, o| reduce(a.tensor(0)?, None, &AMAX, &o[0]));
    r.device_structured(op::min, |a, o| reduce(a.tensor(0)?, None, &AMIN, &o[0]));
    r.device_structured(op::any, |a, o| reduce(a.tensor(0)?, None, &ANY, &o[0]));
    r.device_structured(op::all, |a, o| reduce(a.tensor(0)?, None, &ALL, &o[0]));
    r.device_structured(op::mm, |a, o| matmul(a.tensor(0)?, a.tensor(1)?, &o[0], "aten::mm"));
    r.device_structured(op::bmm, |a, o| matmul(a.tensor(0)?, a.tensor(1)?, &o[0], "aten::bmm"));
}

/// A product of matrices or of batches of them, element by element: right for every layout, and the yardstick that tiled
/// kernels are measured by.
fn matmul(a: &Tensor, b: &Tensor, out: &Tensor, name: &str) -> Result<()> {
    check!(
        matches!(out.dtype(), DType::Float | DType::Half | DType::BFloat16),
        NotImplemented;
        "{name} is not implemented for device 'webgpu' with dtype {}",
        out.dtype().torch_name()
    );
    let total = out.numel() as u64;
    if total == 0 {
        return Ok(());
    }
    let batch = usize::from(a.dim() == 3);
    let stride = |t: &Tensor, d: usize| t.strides()[d] as u32;
    let batch_stride = |t: &Tensor| if batch == 1 { stride(t, 0) } else { 0 };
    let (m, n, k) = (a.sizes()[batch], b.sizes()[batch + 1], a.sizes()[batch + 1]);
    let mut params = vec![total as u32, m as u32, n as u32, k as u32];
    for t in [a, b, out] {
        params.extend([t.storage_offset() as u32, batch_stride(t), stride(t, batch), stride(t, batch + 1)]);
    }
    let slices = [device::slice(out)?, device::slice_or_spare(a)?, device::slice_or_spare(b)?];
    let same = slices[1] == slices[2];
    let mut s = String::new();
    let cell = if out.itemsize() < 4 { "atomic<u32>" } else { "u32" };
    let _ = writeln!(s, "@group(0) @binding(0) var<storage, read_write> b0: array<{cell}>;");
    let _ = writeln!(s, "@group(0) @binding(1) var<storage, read_write> b1: array<u32>;");
    let _ = writeln!(s, "fn r1(i: u32) -> u32 {{ return b1[i]; }}");
    if !same {
        let _ = writeln!(s, "@group(0) @binding(2) var<storage, read_write> b2: array<u32>;");
        let _ = writeln!(s, "fn r2(i: u32) -> u32 {{ return b2[i]; }}");
    }
    let second = if same { 1 } else { 2 };
    let _ = writeln!(s, "@group(0) @binding({}) var<uniform> params: array<vec4<u32>, 4>;", second + 1);
    s.push_str(wgsl::LONG);
    s.push_str(wgsl::CONVERSIONS);
    let _ = writeln!(
        s,
        "@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) num: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {{
 let t = (id.x + id.y * num.x + id.z * num.x * num.y) * 64u + lane;
 if (t >= params[0].x) {{ return; }}
 let column = t % params[0].z; let row = (t / params[0].z) % params[0].y; let batch = t / (params[0].z * params[0].y);
 let a = params[1].x + batch * params[1].y + row * params[1].z;
 let b = params[2].x + batch * params[2].y + column * params[2].w;
 var value = 0.0;
 for (var i = 0u; i < params[0].w; i++) {{
  let oa = a + i * params[1].w; let ob = b + i * params[2].z;
  value += {} * {};
 }}
 let o = params[3].x + batch * params[3].y + row * params[3].z + column * params[3].w;
{}}}",
        load(a.dtype(), 1, "oa"),
        load(b.dtype(), second, "ob"),
        narrow_store(out.dtype()),
    );
    let bindings = if same { &slices[..2] } else { &slices[..] };
    let program = Program {
        name: name.into(),
        source: s.into(),
        bindings: vec![Access::ReadWrite; bindings.len()],
        params: 64,
    };
    device::with(|r| {
        let groups = fold_groups(total.div_ceil(64), r.limits().max_compute_workgroups_per_dimension);
        r.dispatch(&program, bindings, &params, groups)
    })
}
