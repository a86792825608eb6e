//! The random streams against upstream's, from `tests/data/random_streams.tsv` (see
//! `vendor/golden/random_streams.py`, which wrote it).

use half::{bf16, f16};
use sha2::{Digest, Sha256};
use torchnative_engine::random::{
    Bernoulli, Cauchy, CpuGenerator, Exponential, Float, Geometric, LogNormal, Normal, Random, RandomElement,
    RandomFromTo, RandomFull64, Sample, Uniform, distributions::representable_bounds, multinomial,
    permutation,
};

trait Bytes: RandomElement + Default {
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! bytes {
    ($($t:ty)*) => {$(
        impl Bytes for $t {
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
bytes!(u8 i8 i16 i32 i64 u16 u32 u64 f32 f64 f16 bf16);

impl Bytes for bool {
    fn put(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..4].iter().map(|b| format!("{b:02x}")).collect()
}

fn filled<T: Bytes>(n: usize, fill: impl FnOnce(&mut [T])) -> String {
    let mut out = vec![T::default(); n];
    fill(&mut out);
    let mut bytes = Vec::new();
    out.into_iter().for_each(|value| value.put(&mut bytes));
    digest(&bytes)
}

struct Row<'a> {
    stream: &'a str,
    parameters: Vec<&'a str>,
    elements: &'a str,
}

impl Row<'_> {
    fn real(&self, i: usize) -> f64 {
        self.parameters[i].parse().expect("a number")
    }

    fn integers(&self) -> (i64, i64) {
        let at = |i: usize| self.parameters[i].parse().expect("an integer");
        (at(0), at(1))
    }

    /// The digest of the next `n` elements.
    fn draw(&self, g: &mut CpuGenerator, n: usize) -> String {
        match self.elements {
            "f32" => self.floating::<f32>(g, n),
            "f64" => self.floating::<f64>(g, n),
            "f16" => self.floating::<f16>(g, n),
            "bf16" => self.floating::<bf16>(g, n),
            "u8" => self.signed_or_small::<u8>(g, n),
            "i8" => self.signed_or_small::<i8>(g, n),
            "i16" => self.signed_or_small::<i16>(g, n),
            "i32" => self.signed_or_small::<i32>(g, n),
            "i64" => self.signed_or_small::<i64>(g, n),
            "bool" => self.signed_or_small::<bool>(g, n),
            "u16" => self.any::<u16>(g, n, self.integers()),
            "u32" => self.any::<u32>(g, n, self.integers()),
            "u64" => self.any::<u64>(g, n, self.integers()),
            other => panic!("elements {other}"),
        }
    }

    fn floating<T: Bytes + Float>(&self, g: &mut CpuGenerator, n: usize) -> String
    where
        Random: Sample<T>,
    {
        if self.stream == "multinomial" {
            return self.multinomial::<T>(g, n);
        }
        let two = || (self.real(0), self.real(1));
        filled::<T>(n, |out| match self.stream {
            "uniform" => Uniform::new(two().0, two().1).fill(g, out),
            "normal" => Normal::new(two().0, two().1).fill_contiguous(g, out),
            "normal_spread" => Normal::new(two().0, two().1).fill(g, out),
            "log_normal" => LogNormal::new(two().0, two().1).fill(g, out),
            "exponential" => Exponential::new(self.real(0)).fill(g, out),
            "cauchy" => Cauchy::new(two().0, two().1).fill(g, out),
            "random_from_to" => {
                let (from, to) = representable_bounds::<T>(self.integers().0, self.integers().1);
                RandomFromTo::new(to.wrapping_sub(from) as u64, from).fill(g, out);
            }
            _ => self.common(g, out),
        })
    }

    /// `multinomial` returns int64 whatever its weights are.
    fn multinomial<T: Float>(&self, g: &mut CpuGenerator, n: usize) -> String {
        let weights = (0..self.real(0) as i64).map(|i| i % 7 + i % 3);
        filled::<i64>(n, |out| {
            let drawn = if T::DOUBLE {
                multinomial::sample_row(g, weights.map(|w| w as f64), &mut Vec::new(), out)
            } else {
                multinomial::sample_row(g, weights.map(|w| w as f32), &mut Vec::new(), out)
            };
            drawn.expect("valid weights");
        })
    }

    fn signed_or_small<T: Bytes>(&self, g: &mut CpuGenerator, n: usize) -> String
    where
        Random: Sample<T>,
    {
        match self.stream {
            "random_from_to" => self.any::<T>(g, n, self.integers()),
            _ => filled::<T>(n, |out| self.common(g, out)),
        }
    }

    fn any<T: Bytes>(&self, g: &mut CpuGenerator, n: usize, (from, to): (i64, i64)) -> String {
        filled::<T>(n, |out| RandomFromTo::new(to.wrapping_sub(from) as u64, from).fill(g, out))
    }

    fn common<T: Bytes>(&self, g: &mut CpuGenerator, out: &mut [T])
    where
        Random: Sample<T>,
    {
        match self.stream {
            "geometric" => Geometric::new(self.real(0)).fill(g, out),
            "bernoulli" => Bernoulli::Double(self.real(0)).fill(g, out),
            "bernoulli_single" => Bernoulli::Single(self.real(0) as f32).fill(g, out),
            "random" => Random.fill(g, out),
            "random_full" => RandomFull64.fill(g, out),
            "randperm" => permutation::randperm(g, out),
            other => panic!("stream {other}"),
        }
    }
}

#[test]
fn streams_equal_upstreams() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/random_streams.tsv");
    let recorded = std::fs::read_to_string(path).expect("the recorded streams");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [stream, parameters, elements, seed, tensors, state] = fields[..] else { panic!("{line}") };
        let row = Row { stream, parameters: parameters.split_whitespace().collect(), elements };
        let mut g = CpuGenerator::new(seed.parse().expect("a seed"));
        for tensor in tensors.split(' ') {
            let (n, want) = tensor.split_once(':').expect("length:hash");
            let got = row.draw(&mut g, n.parse().expect("a length"));
            if got != want {
                wrong.push(format!("{stream}({parameters}) of {n} {elements}, seed {seed}"));
                break;
            }
        }
        if digest(&g.get_state()) != state {
            wrong.push(format!("state after {stream}({parameters}) of {elements}, seed {seed}"));
        }
        rows += 1;
    }
    assert!(rows > 200, "{rows} rows");
    assert!(wrong.is_empty(), "{} of {rows} differ:\n{}", wrong.len(), wrong.join("\n"));
}
