//! Random operators, called through the dispatcher, against upstream's: `tests/data/random_ops.tsv` (see
//! `vendor/golden/random_ops.py`, which wrote it). Each case below is the expression of the row it is named after.

use sha2::{Digest, Sha256};
use torchnative_engine::{DType, Generator, IValue, OpId, Result, Tensor, op, ops, tensor::factory};

const SEED: u64 = 42;

/// The default generator is shared, and the engine expects its host's lock.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ops::register_all();
    LOCK.lock().unwrap_or_else(|e| e.into_inner())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..4].iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of a tensor's elements in row-major order.
fn bytes(t: &Tensor) -> Vec<u8> {
    let rows = ops::copy::contiguous(t).expect("a copy");
    let n = rows.numel() as usize * rows.itemsize();
    // SAFETY: a contiguous CPU tensor of n bytes.
    unsafe { std::slice::from_raw_parts(rows.data_ptr(), n) }.to_vec()
}

fn empty(sizes: &[i64], dtype: DType) -> Result<Tensor> {
    factory::empty(sizes, dtype, torchnative_engine::Device::CPU)
}

fn arange(first: i32, last: i32) -> Result<Tensor> {
    factory::from_slice(&(first..last).map(|i| i as f32).collect::<Vec<f32>>())
}

/// `arange(first, last) / by`
fn steps(first: i32, last: i32, by: f32) -> Result<Tensor> {
    factory::from_slice(&(first..last).map(|i| i as f32 / by).collect::<Vec<f32>>())
}

fn every(t: &Tensor, dim: i64, start: i64, step: i64) -> Result<Tensor> {
    op::slice_Tensor.call((t, dim, start, (), step))
}

fn weights() -> Result<Tensor> {
    op::view.call((arange(1, 61)?, [4, 15]))
}

/// Calls a sampler whose last argument is the generator.
fn sample(sampler: OpId, t: &Tensor, parameters: &[f64], g: &Generator) -> Result<Tensor> {
    let mut stack: torchnative_engine::Stack = [IValue::from(t)].into_iter().collect();
    stack.extend(parameters.iter().map(|p| IValue::Double(*p)));
    stack.push(IValue::Generator(g.clone()));
    sampler.call(stack)
}

fn run(name: &str, g: &Generator) -> Result<Tensor> {
    let given = Some(g.clone());
    let none = || IValue::None;
    match name {
        "uniform_transposed" => {
            sample(op::uniform_, &op::t.call((empty(&[30, 50], DType::Float)?,))?, &[0.0, 1.0], g)
        }
        "normal_transposed" => {
            sample(op::normal_, &op::t.call((empty(&[30, 50], DType::Float)?,))?, &[0.0, 1.0], g)
        }
        "normal_sliced" => {
            let t = every(&every(&empty(&[30, 50], DType::Double)?, 0, 0, 2)?, 1, 1, 3)?;
            sample(op::normal_, &t, &[0.0, 1.0], g)
        }
        "normal_complex" => sample(op::normal_, &empty(&[40], DType::ComplexFloat)?, &[1.0, 2.0], g),
        "uniform_complex_sliced" => {
            sample(op::uniform_, &every(&empty(&[40], DType::ComplexDouble)?, 0, 0, 2)?, &[0.0, 1.0], g)
        }
        "rand" => op::rand_generator.call(([3, 4], given)),
        "randn" => op::randn_generator.call(([33], given, DType::BFloat16)),
        "randint" => op::randint_low_generator.call((3i64, 1000i64, [5, 7], given)),
        "randint_byte" => op::randint_generator.call((200i64, [50], given, DType::Byte)),
        "randint_half" => op::randint_low_generator.call((-3000i64, 3001i64, [50], given, DType::Half)),
        "randperm" => op::randperm_generator.call((77i64, given, DType::Int)),
        "random_bool" => op::random_.call((empty(&[50], DType::Bool)?, given)),
        "random_from" => op::random__from.call((empty(&[50], DType::Short)?, 5i64, none(), given)),
        "exponential_sliced" => {
            sample(op::exponential_, &every(&empty(&[100], DType::Half)?, 0, 0, 3)?, &[2.0], g)
        }
        "geometric" => sample(op::geometric_, &empty(&[50], DType::Long)?, &[0.01], g),
        "bernoulli" => {
            let p = op::t.call((op::view.call((steps(0, 60, 60.0)?, [6, 10]))?,))?;
            op::bernoulli.call((p, given))
        }
        "bernoulli_expanded" => {
            let p: Vec<f64> = (0..10).map(|i| f64::from(i) / 10.0).collect();
            op::bernoulli__Tensor.call((empty(&[6, 10], DType::Float)?, factory::from_slice(&p)?, given))
        }
        "bernoulli_bool" => sample(op::bernoulli__float, &empty(&[60], DType::Bool)?, &[0.3], g),
        "multinomial_one" => op::multinomial.call((weights()?, 1i64, false, given)),
        "multinomial_one_transposed" => {
            let t = op::t.call((op::view.call((arange(1, 61)?, [15, 4]))?,))?;
            op::multinomial.call((ops::copy::convert(&t, DType::BFloat16)?, 1i64, false, given))
        }
        "multinomial_replacement" => op::multinomial.call((weights()?, 9i64, true, given)),
        "multinomial" => op::multinomial.call((weights()?, 5i64, false, given)),
        "normal_tensor_tensor" => op::normal_Tensor_Tensor.call((arange(0, 40)?, steps(0, 40, 10.0)?, given)),
        "normal_tensor_float" => op::normal_Tensor_float.call((arange(0, 40)?, 2.5, given)),
        "normal_float_tensor" => op::normal_float_Tensor.call((1.5, steps(0, 40, 10.0)?, given)),
        "normal_float_float" => op::normal_float_float.call((1.5, 2.0, [5, 8], given)),
        "dropout" => op::dropout.call((arange(1, 101)?, 0.3, true)),
        "native_dropout" => {
            let results = op::native_dropout.call_all((arange(1, 101)?, 0.3, true))?;
            Ok(results[0].tensor()?.clone())
        }
        "feature_dropout" => {
            op::feature_dropout.call((op::view.call((arange(1, 121)?, [4, 5, 6]))?, 0.3, true))
        }
        "alpha_dropout" => op::alpha_dropout.call((arange(1, 101)?, 0.3, true)),
        "rand_like" => op::rand_like.call((op::t.call((empty(&[5, 6], DType::Float)?,))?,)),
        "randn_like" => op::randn_like.call((empty(&[5, 6], DType::Float)?, DType::Double)),
        "randint_like" => op::randint_like.call((empty(&[50], DType::Float)?, 7i64)),
        other => panic!("no case is named {other}"),
    }
}

#[test]
fn operators_equal_upstreams() {
    let _alone = alone();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/random_ops.tsv");
    let recorded = std::fs::read_to_string(path).expect("the recorded operators");
    let mut wrong = Vec::new();
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, _, tensor, state, default_state] = fields[..] else { panic!("{line}") };
        let g = Generator::cpu(SEED);
        Generator::default_cpu().manual_seed(SEED);
        match run(name, &g) {
            Ok(t) if digest(&bytes(&t)) != tensor => wrong.push(format!("{name} differs")),
            Ok(_) => {}
            // Drawing without replacement sorts with another family's operator.
            Err(e) if name == "multinomial" && e.message.contains("'aten::topk'") => {}
            Err(e) => wrong.push(format!("{name}: {e}")),
        }
        for (g, state) in [(&g, state), (Generator::default_cpu(), default_state)] {
            if digest(&g.get_state()) != state {
                wrong.push(format!("{name} left another state"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Upstream's refusals, word for word.
#[test]
fn refusals() {
    let _alone = alone();
    let float = || empty(&[3], DType::Float).expect("three floats");
    let long = || empty(&[3], DType::Long).expect("three integers");
    let half = || empty(&[3], DType::Half).expect("three halves");
    let byte = || empty(&[3], DType::Byte).expect("three bytes");
    let of = |values: &[f32]| factory::from_slice(values).expect("a tensor");
    let none = || IValue::None;
    let same = op::expand.call((empty(&[1], DType::Float).expect("one float"), [20])).expect("a view");
    let overlap = "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.";
    let cases: Vec<(Result<Tensor>, &str)> = vec![
        (
            op::uniform_.call((float(), 1.23456789, 1.2)),
            "uniform_ expects to return a [from, to) range, but found from=1.23457 > to=1.2",
        ),
        (op::uniform_.call((float(), -1e39, 1.0)), "from is out of bounds for float"),
        (op::uniform_.call((float(), f64::NAN, 1.0)), "from is out of bounds for float"),
        (op::uniform_.call((half(), 0.0, 1e5)), "to is out of bounds for c10::Half"),
        (
            op::uniform_.call((float(), -3e38, 3e38)),
            "uniform_ expects to-from <= std::numeric_limits<Float>::max(), but found to=3e+38 and from=-3e+38 which result in to-from to exceed the limit",
        ),
        (op::uniform_.call((long(),)), "\"check_uniform_bounds\" not implemented for 'Long'"),
        (op::normal_.call((long(), 0.0, -1.5)), "normal expects std >= 0.0, but found std -1.5"),
        (op::normal_.call((long(),)), "\"normal_kernel_cpu\" not implemented for 'Long'"),
        (op::cauchy_.call((float(), 0.0, -1.0)), "cauchy_ expects sigma > 0.0, but found sigma=-1"),
        (
            op::cauchy_.call((long(),)),
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified long int",
        ),
        (op::log_normal_.call((float(), 0.0, 0.0)), "log_normal_ expects std > 0.0, but found std=0"),
        (op::exponential_.call((float(), 0.0)), "exponential_ expects lambda > 0.0, but found lambda=0"),
        (
            op::exponential_.call((long(),)),
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified Long",
        ),
        (op::geometric_.call((float(), 1.5)), "geometric_ expects p to be in (0, 1), but got p=1.5"),
        (op::bernoulli__float.call((float(), 1.5)), "bernoulli_ expects p to be in [0, 1], but got p=1.5"),
        (
            op::bernoulli__Tensor.call((float(), of(&[0.1, f32::NAN, 0.3]))),
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
        ),
        (op::bernoulli.call((long(),)), "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'"),
        (
            op::random__from.call((float(), 5i64, 3i64)),
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=3",
        ),
        (op::random__to.call((byte(), 300i64)), "to - 1 is out of bounds for unsigned char"),
        (op::random__from.call((byte(), -1i64, 3i64)), "from is out of bounds for unsigned char"),
        (op::random__to.call((half(), 70000i64)), "to - 1 is out of bounds for c10::Half"),
        (
            op::random__from.call((float(), 1i64 << 53, none())),
            "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got from=9007199254740992 > to_inc=16777216",
        ),
        (
            op::random__to.call((empty(&[3], DType::ComplexFloat).expect("a tensor"), 2i64)),
            "check_random_bounds handles only integral, floating-point and boolean types",
        ),
        (op::randint.call((70000i64, [2], DType::UInt16)), "to - 1 is out of bounds for short unsigned int"),
        (
            op::randperm.call((300i64, DType::Byte)),
            "value cannot be converted to type uint8_t without overflow",
        ),
        (op::randperm.call((2050i64, DType::Half)), "n cannot be greater than 2049 for Half type."),
        (op::randperm.call((3i64, DType::Bool)), "\"randperm\" not implemented for 'Bool'"),
        (op::multinomial.call((of(&[1.0, 2.0]), 0i64)), "cannot sample n_sample <= 0 samples"),
        (
            op::multinomial.call((of(&[1.0, 2.0]), 3i64)),
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
        ),
        (
            op::multinomial.call((of(&[0.0, 0.0]), 1i64)),
            "invalid multinomial distribution (sum of probabilities <= 0)",
        ),
        (
            op::multinomial.call((of(&[-1.0, 2.0]), 1i64)),
            "probability tensor contains either `inf`, `nan` or element < 0",
        ),
        (
            op::multinomial.call((of(&[f32::INFINITY, 2.0]), 2i64, true)),
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
        ),
        (
            op::multinomial.call((long(), 1i64)),
            "multinomial only supports floating-point dtypes for input, got: Long",
        ),
        (
            op::normal_Tensor_Tensor.call((float(), of(&[1.0, -1.0, 2.0]))),
            "normal expects all elements of std >= 0.0",
        ),
        (op::uniform_.call((&same,)), overlap),
        (op::normal_.call((&same,)), overlap),
        (op::bernoulli__float.call((&same, 0.5)), overlap),
        (op::random_.call((&same,)), overlap),
        (
            op::dropout.call((float(), 1.5, true)),
            "dropout probability has to be between 0 and 1, but got 1.5",
        ),
        (
            op::feature_dropout.call((float(), 0.5, true)),
            "Feature dropout requires at least 2 dimensions in the input",
        ),
        (op::randint_like_Tensor.call((float(), of(&[5.0]))), "high must be a scalar tensor and on CPU"),
    ];
    for (result, want) in cases {
        match result {
            Ok(_) => panic!("expected: {want}"),
            Err(e) => assert_eq!(e.message, want),
        }
    }
}

/// Meta tensors have shapes and no draws.
#[test]
fn meta() {
    let _alone = alone();
    let meta = torchnative_engine::Device::META;
    let t = op::rand.call(([2, 3], DType::Half, (), meta)).expect("a shape");
    assert!(t.is_meta() && t.sizes() == [2, 3] && t.dtype() == DType::Half);
    let drawn = op::multinomial.call((op::randn.call(([4, 3], (), (), meta)).expect("a shape"), 2i64));
    assert_eq!(drawn.expect("a shape").sizes(), [4, 2]);
    let t = op::randperm.call((5i64, (), (), meta)).expect("a shape");
    assert!(t.is_meta() && t.dtype() == DType::Long);
    assert!(op::dropout.call((t, 0.0, true)).is_ok());
}
