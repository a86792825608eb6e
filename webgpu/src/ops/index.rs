//! Operators whose elements come from places that are computed: index_select, gather, triangles, embedding's gradient.

use super::pointwise::{Class, bits, load, narrow_store};
use super::wgsl;
use crate::device;
use crate::program::{Access, Program, Queue, Slice, fold_groups};
use std::fmt::Write;
use torchnative_engine::dispatch::Registry;
use torchnative_engine::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

/// Computes each element of `out` by `body`, which sees its coordinates `c0`, `c1`, … and the numbers `e0`, …, sets the
/// variable `value`, and reads input j at the coordinates x, y, … by `place_j(x, y, …)`.
fn map(
    name: &str,
    out: &Tensor,
    inputs: &[&Tensor],
    extras: &[u32],
    body: impl Fn(&[usize]) -> String,
) -> Result<()> {
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let (fault, number) = device::with(|r| r.fault(name))?;
    check!(n <= u32::MAX as i64, NotImplemented; "{name} over {n} elements is not implemented for device 'webgpu'");
    let Some(class) = Class::of(out.dtype()) else { bail!(Internal, "a dtype the device does not hold") };
    let mut slices: Vec<Slice> = vec![device::slice(out)?];
    let mut params = vec![n as u32];
    let mut s = String::with_capacity(4096);
    let mut places = String::new();
    let mut bindings = Vec::new();
    let p = |i: usize| format!("p({i}u)");
    for (j, t) in [out].into_iter().chain(inputs.iter().copied()).enumerate() {
        if j > 0 {
            let slice = device::slice(t)?;
            let at = slices.iter().position(|s| *s == slice).unwrap_or_else(|| {
                slices.push(slice);
                slices.len() - 1
            });
            check!(at > 0, NotImplemented; "{name} into its own input is not implemented for device 'webgpu'");
            bindings.push(at);
        }
        let args: Vec<String> = (0..t.dim()).map(|d| format!("c{d}: u32")).collect();
        let _ = write!(places, "fn place_{j}({}) -> u32 {{ return {}", args.join(", "), p(params.len()));
        params.push(t.storage_offset() as u32);
        for (d, stride) in t.strides().iter().enumerate() {
            let _ = write!(places, " + c{d} * {}", p(params.len()));
            params.push(*stride as u32);
        }
        places.push_str("; }\n");
    }
    let shape_at = params.len();
    params.extend(out.sizes().iter().map(|&s| s as u32));
    let extras_at = params.len();
    params.extend(extras);
    let number_at = params.len();
    params.push(number);
    params.resize(params.len().next_multiple_of(4), 0);
    let cell = if out.itemsize() < 4 { "atomic<u32>" } else { "u32" };
    for b in 0..slices.len() {
        let cell = if b == 0 { cell } else { "u32" };
        let _ = writeln!(s, "@group(0) @binding({b}) var<storage, read_write> b{b}: array<{cell}>;");
        if b > 0 {
            let _ = writeln!(s, "fn r{b}(i: u32) -> u32 {{ return b{b}[i]; }}");
        }
    }
    let _ = writeln!(
        s,
        "@group(0) @binding({}) var<storage, read_write> fault: array<atomic<u32>>;
fn out_of_range() {{ atomicStore(&fault[0], p({number_at}u)); }}",
        slices.len()
    );
    slices.push(Slice { size: 4, ..fault });
    let _ = writeln!(
        s,
        "@group(0) @binding({}) var<uniform> params: array<vec4<u32>, {}>;
fn p(i: u32) -> u32 {{ return params[i / 4u][i % 4u]; }}",
        slices.len(),
        params.len() / 4
    );
    s.push_str(wgsl::LONG);
    s.push_str(wgsl::CONVERSIONS);
    s.push_str(&places);
    s.push_str(
        "@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) num: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
 let t = (id.x + id.y * num.x + id.z * num.x * num.y) * 64u + lane;
 if (t >= p(0u)) { return; }
 var rest = t;
",
    );
    for d in (0..out.dim()).rev() {
        let size = p(shape_at + d);
        let _ = writeln!(s, " let c{d} = rest % {size}; rest = rest / {size};");
    }
    for i in 0..extras.len() {
        let _ = writeln!(s, " let e{i} = {};", p(extras_at + i));
    }
    let _ = writeln!(s, " var value: {};\n{}", class.wgsl(), body(&bindings));
    let _ =
        writeln!(s, " let o = place_0({});\n{}}}", coordinates(out.dim(), None), narrow_store(out.dtype()));
    let program = Program {
        name: name.into(),
        source: s.into(),
        bindings: vec![Access::ReadWrite; slices.len()],
        params: (params.len() * 4) as u32,
    };
    device::with(|r| {
        let groups = fold_groups((n as u64).div_ceil(64), r.limits().max_compute_workgroups_per_dimension);
        r.dispatch(&program, &slices, &params, groups)
    })
}

/// `c0, c1, …`, with the one of a dimension replaced.
fn coordinates(rank: usize, replaced: Option<(usize, &str)>) -> String {
    let names: Vec<String> = (0..rank)
        .map(|d| match replaced {
            Some((r, name)) if r == d => name.to_owned(),
            _ => format!("c{d}"),
        })
        .collect();
    names.join(", ")
}

fn wrap(d: i64, rank: usize) -> usize {
    (if d < 0 { d + rank.max(1) as i64 } else { d }) as usize
}

/// The low word of an index at place `o` of a binding.
fn index_word(t: &Tensor, b: usize, o: &str) -> String {
    match t.dtype() {
        DType::Long => format!("r{b}(2u * {o})"),
        _ => format!("r{b}({o})"),
    }
}

/// Whether the index at place `o` is within `size`.
fn index_within(t: &Tensor, b: usize, o: &str, size: &str) -> String {
    let low = format!("{} < {size}", index_word(t, b, o));
    match t.dtype() {
        DType::Long => format!("({low} && r{b}(2u * {o} + 1u) == 0u)"),
        _ => format!("({low})"),
    }
}

/// Takes along `d` at the places that `index` names.
fn take(name: &str, t: &Tensor, d: usize, index: &Tensor, whole_index: bool, out: &Tensor) -> Result<()> {
    check!(
        matches!(index.dtype(), DType::Long | DType::Int),
        NotImplemented;
        "{name} by {} is not implemented for device 'webgpu'",
        index.dtype().torch_name()
    );
    let size = t.sizes().get(d).copied().unwrap_or(1);
    map(name, out, &[t, index], &[size as u32], |b| {
        let own = if whole_index { coordinates(out.dim(), None) } else { format!("c{d}") };
        let own = if index.dim() == 0 { String::new() } else { own };
        let place = if t.dim() == 0 { String::new() } else { coordinates(t.dim(), Some((d, "i"))) };
        format!(
            " let io = place_2({own});
 var i = {index};
 if (!{within}) {{ out_of_range(); i = 0u; }}
 let so = place_1({place});
 value = {load};",
            index = index_word(index, b[1], "io"),
            within = index_within(index, b[1], "io", "e0"),
            load = load(t.dtype(), b[0], "so"),
        )
    })
}

pub(super) fn register(r: &mut Registry) {
    r.device_structured(op::index_select, |a, o| {
        let (t, d, index) = (a.tensor(0)?, a.int(1)?, a.tensor(2)?);
        take("aten::index_select", t, wrap(d, t.dim()), index, false, &o[0])
    });
    r.device_structured(op::gather, |a, o| {
        let (t, d, index) = (a.tensor(0)?, a.int(1)?, a.tensor(2)?);
        take("aten::gather", t, wrap(d, t.dim()), index, true, &o[0])
    });
    r.device_structured(op::tril, |a, o| triangle("aten::tril", a.tensor(0)?, a.int(1)?, true, &o[0]));
    r.device_structured(op::triu, |a, o| triangle("aten::triu", a.tensor(0)?, a.int(1)?, false, &o[0]));
    r.device_structured(op::scatter_value, |a, o| {
        scatter(
            "aten::scatter.value",
            a.tensor(0)?,
            a.int(1)?,
            a.tensor(2)?,
            Written::Number(a.scalar(3)?),
            &o[0],
        )
    });
    r.device_structured(op::scatter_src, |a, o| {
        scatter(
            "aten::scatter.src",
            a.tensor(0)?,
            a.int(1)?,
            a.tensor(2)?,
            Written::From(a.tensor(3)?),
            &o[0],
        )
    });
    r.device_structured(op::scatter_add, |a, o| {
        scatter(
            "aten::scatter_add",
            a.tensor(0)?,
            a.int(1)?,
            a.tensor(2)?,
            Written::Added(a.tensor(3)?),
            &o[0],
        )
    });
    r.device(op::scatter__value, |a| {
        let y = op::scatter_value.call((a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.scalar(3)?))?;
        Ok(op::copy_.call((a.tensor(0)?, y))?.into())
    });
    r.device(op::scatter__src, |a| {
        let y = op::scatter_src.call((a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?))?;
        Ok(op::copy_.call((a.tensor(0)?, y))?.into())
    });
    r.device(op::scatter_add_, |a| {
        let y = op::scatter_add.call((a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?))?;
        Ok(op::copy_.call((a.tensor(0)?, y))?.into())
    });
    r.device(op::masked_select, |a| Ok(masked_select(a.tensor(0)?, a.tensor(1)?)?.into()));
    r.device(op::index_Tensor, |a| Ok(index(a.tensor(0)?, &a.opt_tensor_list(1)?)?.into()));
    r.device(op::embedding_dense_backward, |a| {
        let (grad, index, weights, padding, scaled) =
            (a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.int(3)?, a.bool(4)?);
        Ok(embedding_backward(grad, index, weights, padding, scaled)?.into())
    });
}

/// What is written where an index names a place.
#[derive(Clone, Copy)]
enum Written<'a> {
    Number(Scalar),
    From(&'a Tensor),
    Added(&'a Tensor),
}

/// Each element looks for the indices that name it, in their order: the last one wins, sums have one order.
fn scatter(name: &str, t: &Tensor, d: i64, index: &Tensor, what: Written<'_>, out: &Tensor) -> Result<()> {
    check!(
        matches!(index.dtype(), DType::Long | DType::Int) && index.dim() == t.dim() && t.dim() > 0,
        NotImplemented;
        "{name} by {} of {} dimensions is not implemented for device 'webgpu' with dtype {}",
        index.dtype().torch_name(),
        index.dim(),
        t.dtype().torch_name()
    );
    let Some(class) = Class::of(t.dtype()) else { bail!(Internal, "a dtype the device does not hold") };
    if let Written::Added(_) = what {
        check!(
            class != Class::Bool,
            NotImplemented;
            "{name} is not implemented for device 'webgpu' with dtype {}",
            t.dtype().torch_name()
        );
    }
    let d = wrap(d, t.dim());
    let mut extras: Vec<u32> = index.sizes().iter().map(|&n| n as u32).collect();
    let mut inputs = vec![t, index];
    match what {
        Written::Number(v) => extras.extend(bits(v, class)),
        Written::From(source) | Written::Added(source) => inputs.push(source),
    }
    let rank = t.dim();
    let size_at = extras.len();
    extras.push(t.sizes()[d] as u32);
    map(name, out, &inputs, &extras, |b| {
        let all = coordinates(rank, None);
        let own = coordinates(rank, Some((d, "j")));
        let inside: Vec<String> = (0..rank).filter(|i| *i != d).map(|i| format!("c{i} < e{i}")).collect();
        let inside = if inside.is_empty() { "true".to_owned() } else { inside.join(" && ") };
        let step = match what {
            Written::Number(_) => match class {
                Class::Float => format!("value = bitcast<f32>(e{rank});"),
                Class::Int => format!("value = bitcast<i32>(e{rank});"),
                Class::Long => format!("value = vec2<u32>(e{rank}, e{});", rank + 1),
                Class::Bool => format!("value = e{rank} != 0u;"),
            },
            Written::From(source) => {
                format!("let vo = place_3({own}); value = {};", load(source.dtype(), b[2], "vo"))
            }
            Written::Added(source) => {
                let v = load(source.dtype(), b[2], "vo");
                let sum = if class == Class::Long {
                    format!("add_long(value, {v})")
                } else {
                    format!("value + {v}")
                };
                format!("let vo = place_3({own}); value = {sum};")
            }
        };
        format!(
            " let so = place_1({all});
 value = {start};
 if ({inside}) {{
  for (var j = 0u; j < e{d}; j++) {{
   let io = place_2({own});
   if (!{within}) {{ out_of_range(); }}
   if ({index} == c{d}) {{ {step} }}
  }}
 }}",
            start = load(t.dtype(), b[0], "so"),
            within = index_within(index, b[1], "io", &format!("e{size_at}")),
            index = index_word(index, b[1], "io"),
        )
    })
}

/// Linear places of the true elements of a contiguous mask. Their number is read back: it is the result's size.
fn places(mask: &Tensor) -> Result<Tensor> {
    let n = mask.numel();
    check!(n <= u32::MAX as i64, NotImplemented; "aten::nonzero over {n} elements is not implemented for device 'webgpu'");
    let count = op::item.call_all((op::sum.call((mask,))?,))?.swap_remove(0).scalar()?.to_i64();
    let out = torchnative_engine::tensor::factory::empty(&[count], DType::Long, mask.device())?;
    if count == 0 {
        return Ok(out);
    }
    let program = Program {
        name: "aten::nonzero".into(),
        source: COMPACT.into(),
        bindings: vec![Access::ReadWrite; 2],
        params: 16,
    };
    let params = [n as u32, mask.storage_offset() as u32, 0, 0];
    device::dispatch(&program, &[device::slice(&out)?, device::slice(mask)?], &params, [1, 1, 1])?;
    Ok(out)
}

/// One workgroup: each lane counts a run of the mask, the counts are added up, each lane writes its run's places.
const COMPACT: &str = "@group(0) @binding(0) var<storage, read_write> b0: array<u32>;
@group(0) @binding(1) var<storage, read_write> b1: array<u32>;
@group(0) @binding(2) var<uniform> params: vec4<u32>;
var<workgroup> counts: array<u32, 256>;
fn on(i: u32) -> bool {
 let at = i + params.y;
 return ((b1[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
}
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
 let run = (params.x + 255u) / 256u;
 let first = min(lane * run, params.x);
 let end = min(first + run, params.x);
 var n = 0u;
 for (var i = first; i < end; i++) { if (on(i)) { n++; } }
 counts[lane] = n;
 workgroupBarrier();
 var at = 0u;
 for (var i = 0u; i < lane; i++) { at += counts[i]; }
 for (var i = first; i < end; i++) {
  if (on(i)) { b0[2u * at] = i; b0[2u * at + 1u] = 0u; at++; }
 }
}
";

/// masked_select(Tensor self, Tensor mask) -> Tensor
fn masked_select(t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    check!(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask");
    let shape = torchnative_engine::tensor::shape::broadcast(t.sizes(), mask.sizes())?;
    let flat = |t: &Tensor| -> Result<Tensor> {
        let wide = op::clone.call((op::expand.call((t, &shape[..]))?, MemoryFormat::Contiguous))?;
        op::view.call((wide, [-1]))
    };
    op::index_select.call((flat(t)?, 0, places(&flat(mask)?)?))
}

/// `t[i]` with one index of integers; other forms are not here yet.
fn index(t: &Tensor, list: &[Option<&Tensor>]) -> Result<Tensor> {
    let mut given = list.iter().enumerate().filter_map(|(d, i)| i.map(|i| (d, i)));
    let (Some((d, i)), None) = (given.next(), given.next()) else {
        bail!(
            NotImplemented,
            "aten::index.Tensor with several indices is not implemented for device 'webgpu' with dtype {}",
            t.dtype().torch_name()
        )
    };
    check!(d < t.dim(), Index; "too many indices for tensor of dimension {}", t.dim());
    check!(
        i.device() == t.device() || i.is_cpu(),
        "indices should be either on cpu or on the same device as the indexed tensor ({})",
        t.device()
    );
    let i = op::to_device.call((i, t.device(), i.dtype()))?;
    if i.dtype() == DType::Bool && i.dim() == 1 && i.sizes()[0] == t.sizes()[d] {
        let mask = op::clone.call((i, MemoryFormat::Contiguous))?;
        return op::index_select.call((t, d as i64, places(&mask)?));
    }
    if i.dtype() == DType::Bool && d == 0 && i.sizes() == t.sizes() {
        return masked_select(t, &i);
    }
    check!(
        matches!(i.dtype(), DType::Long | DType::Int),
        NotImplemented;
        "aten::index.Tensor by {} is not implemented for device 'webgpu' with dtype {}",
        i.dtype().torch_name(),
        t.dtype().torch_name()
    );
    // Negative ones count from the end.
    let below = op::lt_Scalar.call((&i, 0))?;
    let i = op::where_self.call((below, op::add_Scalar.call((&i, t.sizes()[d]))?, &i))?;
    let flat = op::reshape.call((&i, [i.numel()]))?;
    let taken = op::index_select.call((t, d as i64, flat))?;
    let mut sizes = t.sizes()[..d].to_vec();
    sizes.extend(i.sizes());
    sizes.extend(&t.sizes()[d + 1..]);
    op::view.call((taken, &sizes[..]))
}

fn triangle(name: &str, t: &Tensor, diagonal: i64, lower: bool, out: &Tensor) -> Result<()> {
    let rank = out.dim();
    let k = diagonal.clamp(i32::MIN as i64 / 2, i32::MAX as i64 / 2) as i32;
    let zero = match Class::of(t.dtype()) {
        Some(Class::Float) => "0.0",
        Some(Class::Int) => "0i",
        Some(Class::Long) => "vec2<u32>(0u)",
        _ => "false",
    };
    map(name, out, &[t], &[k as u32], |b| {
        let comparison = if lower { "<=" } else { ">=" };
        format!(
            " value = {zero};
 if (i32(c{last}) - i32(c{before}) {comparison} bitcast<i32>(e0)) {{
  let so = place_1({all});
  value = {load};
 }}",
            last = rank - 1,
            before = rank - 2,
            all = coordinates(rank, None),
            load = load(t.dtype(), b[0], "so"),
        )
    })
}

/// Each element of the weight's gradient adds up the rows that looked it up: no atomics, and one order.
fn embedding_backward(
    grad: &Tensor,
    index: &Tensor,
    weights: i64,
    padding: i64,
    scaled: bool,
) -> Result<Tensor> {
    check!(
        !scaled && grad.dtype().is_floating_point() && matches!(index.dtype(), DType::Long | DType::Int),
        NotImplemented;
        "aten::embedding_dense_backward with indices of {} or scaled by frequency is not implemented for device 'webgpu' with \
         dtype {}",
        index.dtype().torch_name(),
        grad.dtype().torch_name()
    );
    let width = grad.sizes().last().copied().unwrap_or(1);
    let n = index.numel();
    let index = op::reshape.call((op::clone.call((index, MemoryFormat::Contiguous))?, [n]))?;
    let grad = op::reshape.call((grad, [n, width]))?;
    let out = torchnative_engine::tensor::factory::empty(&[weights, width], grad.dtype(), grad.device())?;
    if n == 0 {
        return op::zero_.call((out,));
    }
    map("aten::embedding_dense_backward", &out, &[&grad, &index], &[n as u32, padding as u32], |b| {
        format!(
            " value = 0.0;
 if (c0 != e1) {{
  for (var i = 0u; i < e0; i++) {{
   let io = place_2(i);
   if ({index} == c0) {{ let so = place_1(i, c1); value += {load}; }}
  }}
 }}",
            index = index_word(&index, b[1], "io"),
            load = load(grad.dtype(), b[0], "so"),
        )
    })?;
    Ok(out)
}
