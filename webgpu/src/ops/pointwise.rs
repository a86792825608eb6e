//! Pointwise kernels, generated: one WGSL program for each combination of expression, dtypes and number of dimensions.
//!
//! Every element type is loaded into one of four classes, an expression is evaluated there, and the result is packed into
//! the output's words. Types narrower than a word are written whole words at a time where the output is contiguous, by
//! atomics where it is strided.

use super::wgsl;
use crate::device;
use crate::program::{Access, Program, Slice, fold_groups};
use std::fmt::Write;
use torchnative_engine::iter::TensorIterator;
use torchnative_engine::{DType, Result, Scalar, Tensor, bail, check};

/// What an element is computed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// `f32`
    Float,
    /// `i32`
    Int,
    /// `vec2<u32>`, low word first
    Long,
    /// `bool`
    Bool,
}

impl Class {
    /// The class of a dtype; none for those the device does not hold.
    pub fn of(dtype: DType) -> Option<Class> {
        Some(match dtype {
            DType::Float | DType::Half | DType::BFloat16 => Class::Float,
            DType::Int | DType::Short | DType::Char | DType::Byte => Class::Int,
            DType::Long => Class::Long,
            DType::Bool => Class::Bool,
            _ => return None,
        })
    }
    pub fn wgsl(self) -> &'static str {
        match self {
            Class::Float => "f32",
            Class::Int => "i32",
            Class::Long => "vec2<u32>",
            Class::Bool => "bool",
        }
    }
}

/// An expression for each class its inputs may have: `a0`, `a1`, … are the inputs, `k0`, … the numbers. Empty where the
/// operator has no kernel.
#[derive(Clone, Copy, Default)]
pub struct Body {
    pub float: &'static str,
    pub int: &'static str,
    pub long: &'static str,
    pub bool: &'static str,
}

impl Body {
    pub fn of(&self, class: Class) -> &'static str {
        match class {
            Class::Float => self.float,
            Class::Int => self.int,
            Class::Long => self.long,
            Class::Bool => self.bool,
        }
    }
}

/// Where an input comes from.
enum Source {
    /// A binding, by number, and the place of its offset and strides in the parameters.
    Memory { binding: usize, at: usize },
    /// A number, by the place of its two words.
    Number { at: usize },
}

/// The bits of a number as an element of a class.
pub fn bits(s: Scalar, class: Class) -> [u32; 2] {
    match class {
        Class::Float => [(s.to_f64() as f32).to_bits(), 0],
        Class::Bool => [s.to_bool() as u32, 0],
        Class::Int | Class::Long => {
            let v = match s {
                Scalar::Int(v) => v,
                Scalar::UInt(v) => v as i64,
                Scalar::Bool(v) => v as i64,
                Scalar::Float(v) => v as i64,
                Scalar::Complex(re, _) => re as i64,
            };
            [v as u32, (v >> 32) as u32]
        }
    }
}

/// The value of a CPU tensor of one element.
fn number(t: &Tensor) -> Result<Scalar> {
    let t = torchnative_engine::ops::copy::convert(
        t,
        if t.dtype().is_floating_point() { DType::Double } else { DType::Long },
    )?;
    let p = t.data_ptr();
    // SAFETY: a CPU tensor with one element of that type.
    Ok(unsafe {
        if t.dtype() == DType::Double {
            Scalar::Float(*p.cast::<f64>())
        } else {
            Scalar::Int(*p.cast::<i64>())
        }
    })
}

/// What a program is made of.
pub struct Plan<'a> {
    pub name: &'a str,
    pub expression: &'a str,
    pub dims: usize,
    pub output: DType,
    pub inputs: Vec<DType>,
    pub numbers: Vec<Class>,
}

/// Runs an expression over an iteration with one output.
///
/// # Errors
/// NotImplementedError for dtypes the expression does not cover.
pub fn run(it: &TensorIterator, name: &str, body: &Body, numbers: &[Scalar]) -> Result<()> {
    let dtype = it.common_dtype();
    let class = Class::of(if it.ntensors() > it.noutputs() { it.input_dtype(0) } else { it.dtype(0) });
    let expression = class.map_or("", |c| body.of(c));
    check!(
        !expression.is_empty() && it.noutputs() == 1,
        NotImplemented;
        "{name} is not implemented for device 'webgpu' with dtype {}",
        dtype.torch_name()
    );
    let class = class.expect("an expression was found");
    let numbers: Vec<_> = numbers.iter().map(|s| (class, *s)).collect();
    run_expression(it, name, expression, &numbers)
}

/// Runs an expression whose classes are right already.
///
/// # Errors
/// NotImplementedError for dtypes the device does not hold.
pub fn run_expression(
    it: &TensorIterator,
    name: &str,
    expression: &str,
    numbers: &[(Class, Scalar)],
) -> Result<()> {
    let n = it.numel();
    if n == 0 {
        return Ok(());
    }
    check!(n <= u32::MAX as i64, NotImplemented; "{name} over {n} elements is not implemented for device 'webgpu'");
    let shape = it.shape();
    let mut slices: Vec<Slice> = Vec::new();
    let mut params: Vec<u32> = vec![n as u32];
    params.extend(shape.iter().map(|&s| s as u32));
    let mut sources = Vec::new();
    for i in 0..it.ntensors() {
        let t = it.tensor(i);
        let at = params.len();
        if i > 0 && t.is_cpu() {
            let Some(class) = Class::of(it.dtype(i)) else {
                bail!(
                    NotImplemented,
                    "{name} is not implemented for device 'webgpu' with dtype {}",
                    it.dtype(i).torch_name()
                )
            };
            params.extend(bits(number(t)?, class));
            sources.push(Source::Number { at });
            continue;
        }
        let slice = device::slice(t)?;
        let binding = slices.iter().position(|s| *s == slice).unwrap_or_else(|| {
            slices.push(slice);
            slices.len() - 1
        });
        params.push(t.storage_offset() as u32);
        let size = t.itemsize() as i64;
        params.extend(it.strides(i).iter().map(|s| (s / size) as u32));
        sources.push(Source::Memory { binding, at });
    }
    let numbers_at = params.len();
    for (class, s) in numbers {
        params.extend(bits(*s, *class));
    }
    params.resize(params.len().next_multiple_of(4), 0);
    let plan = Plan {
        name,
        expression,
        dims: shape.len(),
        output: it.dtype(0),
        inputs: (1..it.ntensors()).map(|i| it.dtype(i)).collect(),
        numbers: numbers.iter().map(|(c, _)| *c).collect(),
    };
    let size = it.tensor(0).itemsize();
    let mut expected = size as i64;
    let mut dense = true;
    for (&s, &n) in it.strides(0).iter().zip(shape) {
        dense &= s == expected || n == 1;
        expected *= n;
    }
    let store = match size {
        8 => Store::Pair,
        4 => Store::Word,
        _ if dense => Store::Packed,
        _ => Store::Atomic,
    };
    let source = program(&plan, &sources, slices.len(), params.len() / 4, numbers_at, store);
    let count = match store {
        // The words from the one with the first element to the one with the last.
        Store::Packed => {
            let per = 4 / size as u64;
            let first = it.tensor(0).storage_offset() as u64;
            (first + n as u64).div_ceil(per) - first / per
        }
        _ => n as u64,
    };
    let program = Program {
        name: name.into(),
        source: source.into(),
        bindings: vec![Access::ReadWrite; slices.len()],
        params: (params.len() * 4) as u32,
    };
    device::with(|r| {
        use crate::program::Queue;
        let groups = fold_groups(count.div_ceil(64), r.limits().max_compute_workgroups_per_dimension);
        r.dispatch(&program, &slices, &params, groups)
    })
}

/// How results reach memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    Pair,
    Word,
    /// One invocation a word.
    Packed,
    /// One invocation an element of a word that others write too.
    Atomic,
}

fn param(i: usize) -> String {
    format!("params[{}].{}", i / 4, ["x", "y", "z", "w"][i % 4])
}

fn program(
    plan: &Plan<'_>,
    sources: &[Source],
    bindings: usize,
    vectors: usize,
    numbers_at: usize,
    store: Store,
) -> String {
    let mut s = String::with_capacity(4096);
    let cells = |b: usize| if b == 0 && store == Store::Atomic { "atomic<u32>" } else { "u32" };
    for b in 0..bindings {
        let _ = writeln!(s, "@group(0) @binding({b}) var<storage, read_write> b{b}: array<{}>;", cells(b));
        let read = if cells(b) == "u32" { format!("b{b}[i]") } else { format!("atomicLoad(&b{b}[i])") };
        let _ = writeln!(s, "fn r{b}(i: u32) -> u32 {{ return {read}; }}");
    }
    let _ = writeln!(s, "@group(0) @binding({bindings}) var<uniform> params: array<vec4<u32>, {vectors}>;");
    s.push_str(wgsl::LONG);
    s.push_str(wgsl::CONVERSIONS);
    s.push_str(wgsl::FUNCTIONS);
    let _ = writeln!(s, "fn compute(element: u32) -> vec2<u32> {{\n var rest = element;");
    for d in 0..plan.dims {
        if d + 1 == plan.dims {
            let _ = writeln!(s, " let x{d} = rest;");
        } else {
            let n = param(1 + d);
            let _ = writeln!(s, " let x{d} = rest % {n}; rest = rest / {n};");
        }
    }
    for (i, source) in sources.iter().enumerate().skip(1) {
        let class = Class::of(plan.inputs[i - 1]).expect("checked when tensors are made");
        match source {
            Source::Number { at } => {
                let _ = writeln!(s, " let a{} = {};", i - 1, from_bits(class, *at));
            }
            Source::Memory { binding, at } => {
                let _ = writeln!(s, " let o{i} = {};", offset(plan.dims, *at));
                let _ = writeln!(
                    s,
                    " let a{} = {};",
                    i - 1,
                    load(plan.inputs[i - 1], *binding, &format!("o{i}"))
                );
            }
        }
    }
    for (j, class) in plan.numbers.iter().enumerate() {
        let _ = writeln!(s, " let k{j} = {};", from_bits(*class, numbers_at + 2 * j));
    }
    let class = Class::of(plan.output).expect("checked when tensors are made");
    let _ = writeln!(s, " let value: {} = {};", class.wgsl(), plan.expression);
    let _ = writeln!(s, " return {};\n}}", pack(plan.output));
    let Source::Memory { at, .. } = sources[0] else { unreachable!("outputs are in memory") };
    let per = (4 / plan.output.itemsize().min(4)) as u32;
    let width = 32 / per;
    s.push_str(
        "@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) num: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
 let t = (id.x + id.y * num.x + id.z * num.x * num.y) * 64u + lane;
",
    );
    let n = param(0);
    if store == Store::Packed {
        let first = param(at);
        let mask = (1u64 << width) - 1;
        let _ = writeln!(
            s,
            " let first = {first}; let end = first + {n};
 let word = first / {per}u + t;
 if (word * {per}u >= end) {{ return; }}
 var bits = 0u; var kept = 0xffffffffu;
 for (var k = 0u; k < {per}u; k++) {{
  let at = word * {per}u + k;
  if (at >= first && at < end) {{
   bits |= (compute(at - first).x & {mask}u) << (k * {width}u);
   kept &= ~({mask}u << (k * {width}u));
  }}
 }}
 if (kept != 0u) {{ bits |= r0(word) & kept; }}
 b0[word] = bits;
}}"
        );
        return s;
    }
    let _ = writeln!(s, " if (t >= {n}) {{ return; }}\n let v = compute(t);\n var rest = t;");
    for d in 0..plan.dims {
        if d + 1 == plan.dims {
            let _ = writeln!(s, " let x{d} = rest;");
        } else {
            let n = param(1 + d);
            let _ = writeln!(s, " let x{d} = rest % {n}; rest = rest / {n};");
        }
    }
    let _ = writeln!(s, " let o = {};", offset(plan.dims, at));
    s.push_str(&store_words(plan.output));
    s.push_str("}\n");
    s
}

/// Writes the words `v` of an element to its place `o` in binding 0, which is atomic for types narrower than a word.
fn store_words(dtype: DType) -> String {
    match dtype.itemsize() {
        8 => " b0[2u * o] = v.x; b0[2u * o + 1u] = v.y;\n".to_owned(),
        4 => " b0[o] = v.x;\n".to_owned(),
        size => {
            let (per, width) = (4 / size, 8 * size);
            let mask = (1u64 << width) - 1;
            format!(
                " let shift = (o % {per}u) * {width}u;
 atomicAnd(&b0[o / {per}u], ~({mask}u << shift));
 atomicOr(&b0[o / {per}u], (v.x & {mask}u) << shift);
"
            )
        }
    }
}

/// Packs `value` and writes it to place `o` of binding 0, which is atomic for types narrower than a word.
pub fn narrow_store(dtype: DType) -> String {
    format!(" let v = {};\n{}", pack(dtype), store_words(dtype))
}

/// The element's place in its storage.
fn offset(dims: usize, at: usize) -> String {
    let mut e = param(at);
    for d in 0..dims {
        let _ = write!(e, " + x{d} * {}", param(at + 1 + d));
    }
    e
}

fn from_bits(class: Class, at: usize) -> String {
    let (low, high) = (param(at), param(at + 1));
    match class {
        Class::Float => format!("bitcast<f32>({low})"),
        Class::Int => format!("bitcast<i32>({low})"),
        Class::Long => format!("vec2<u32>({low}, {high})"),
        Class::Bool => format!("({low} != 0u)"),
    }
}

/// An element of a dtype at place `o` of a binding, in its class.
pub fn load(dtype: DType, b: usize, o: &str) -> String {
    let half = format!("((r{b}({o} >> 1u) >> (({o} & 1u) * 16u)) & 0xffffu)");
    let byte = format!("((r{b}({o} >> 2u) >> (({o} & 3u) * 8u)) & 0xffu)");
    match dtype {
        DType::Float => format!("bitcast<f32>(r{b}({o}))"),
        DType::Int => format!("bitcast<i32>(r{b}({o}))"),
        DType::Long => format!("vec2<u32>(r{b}(2u * {o}), r{b}(2u * {o} + 1u))"),
        DType::Half => format!("half_to_f32({half})"),
        DType::BFloat16 => format!("bitcast<f32>({half} << 16u)"),
        DType::Short => format!("((bitcast<i32>({half}) << 16u) >> 16u)"),
        DType::Char => format!("((bitcast<i32>({byte}) << 24u) >> 24u)"),
        DType::Byte => format!("bitcast<i32>({byte})"),
        _ => format!("({byte} != 0u)"),
    }
}

/// `value` as the words of a dtype.
fn pack(dtype: DType) -> &'static str {
    match dtype {
        DType::Half => "vec2<u32>(f32_to_half(value), 0u)",
        DType::BFloat16 => "vec2<u32>(f32_to_bfloat(value), 0u)",
        DType::Long => "value",
        DType::Bool => "vec2<u32>(select(0u, 1u, value), 0u)",
        _ => "vec2<u32>(bitcast<u32>(value), 0u)",
    }
}

/// `a0` of one class as another.
pub fn cast(from: Class, to: Class) -> &'static str {
    match (from, to) {
        (Class::Float, Class::Int) => "low(f32_to_long(a0))",
        (Class::Float, Class::Long) => "f32_to_long(a0)",
        (Class::Float, Class::Bool) => "((bitcast<u32>(a0) & 0x7fffffffu) != 0u)",
        (Class::Int, Class::Float) => "long_to_f32(int_to_long(a0))",
        (Class::Int, Class::Long) => "int_to_long(a0)",
        (Class::Int, Class::Bool) => "(a0 != 0i)",
        (Class::Long, Class::Float) => "long_to_f32(a0)",
        (Class::Long, Class::Int) => "low(a0)",
        (Class::Long, Class::Bool) => "any(a0 != vec2<u32>(0u))",
        (Class::Bool, Class::Float) => "select(0.0, 1.0, a0)",
        (Class::Bool, Class::Int) => "select(0i, 1i, a0)",
        (Class::Bool, Class::Long) => "vec2<u32>(select(0u, 1u, a0), 0u)",
        _ => "a0",
    }
}

/// `dst.copy_(src)` on the device.
///
/// # Errors
/// Only those of recording.
pub fn convert(dst: &Tensor, src: &Tensor) -> Result<()> {
    let it =
        TensorIterator::config().output(Some(dst)).input(src).no_resize().skip_overlap_check().build()?;
    let classes = Class::of(src.dtype()).zip(Class::of(dst.dtype()));
    let Some((from, to)) = classes else { bail!(Internal, "a dtype the device does not hold") };
    // NaN keeps its bits where nothing is converted.
    run_expression(&it, "aten::copy_", cast(from, to), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(source: &str) {
        let module = naga::front::wgsl::parse_str(source)
            .unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty())
            .validate(&module)
            .unwrap_or_else(|e| panic!("{e:?}\n{source}"));
    }

    const DTYPES: [DType; 9] = [
        DType::Float,
        DType::Half,
        DType::BFloat16,
        DType::Int,
        DType::Short,
        DType::Char,
        DType::Byte,
        DType::Long,
        DType::Bool,
    ];

    fn source(plan: &Plan<'_>, store: Store) -> String {
        let mut at = 1 + plan.dims;
        let mut sources = Vec::new();
        for binding in 0..=plan.inputs.len() {
            sources.push(Source::Memory { binding, at });
            at += 1 + plan.dims;
        }
        let bindings = sources.len();
        let end = at + 2 * plan.numbers.len();
        program(plan, &sources, bindings, end.div_ceil(4), at, store)
    }

    fn stores(dtype: DType) -> &'static [Store] {
        match dtype.itemsize() {
            8 => &[Store::Pair],
            4 => &[Store::Word],
            _ => &[Store::Packed, Store::Atomic],
        }
    }

    #[test]
    fn every_conversion_is_valid_wgsl() {
        for from in DTYPES {
            for to in DTYPES {
                let expression = cast(Class::of(from).unwrap(), Class::of(to).unwrap());
                for dims in [0, 1, 3] {
                    for &store in stores(to) {
                        let plan = Plan {
                            name: "copy",
                            expression,
                            dims,
                            output: to,
                            inputs: vec![from],
                            numbers: vec![],
                        };
                        valid(&source(&plan, store));
                    }
                }
            }
        }
    }

    #[test]
    fn every_body_is_valid_wgsl() {
        for entry in super::super::table::ENTRIES {
            for (dtype, class) in [
                (DType::Float, Class::Float),
                (DType::Int, Class::Int),
                (DType::Long, Class::Long),
                (DType::Bool, Class::Bool),
            ] {
                let expression = entry.body.of(class);
                if expression.is_empty() {
                    continue;
                }
                let plan = Plan {
                    name: entry.name,
                    expression,
                    dims: 2,
                    output: if entry.answers_bool { DType::Bool } else { dtype },
                    inputs: vec![dtype; entry.inputs],
                    numbers: vec![class; entry.numbers],
                };
                valid(&source(&plan, stores(plan.output)[0]));
            }
        }
    }
}
