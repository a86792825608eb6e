"""Records upstream's random streams: `random_streams.tsv`.

A row is one generator, seeded once, that fills tensors of growing length in turn. It keeps the first bytes of the
SHA-256 of each tensor and of the generator's final state.
"""

import hashlib
import os
import sys
from pathlib import Path

# This folder must not shadow the standard library's modules.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]

import torch

SEEDS = (0, 42, 2**40 + 5)
SIZES = (1, 7, 15, 16, 17, 31, 100, 1000)
LONG = 20003

FLOATS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
SIGNED = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
INTEGERS = {"u8": torch.uint8, **SIGNED}
WIDER_UNSIGNED = {"u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64}
BOOL = {"bool": torch.bool}
WITHOUT_UNSIGNED = {**FLOATS, **INTEGERS, **BOOL}


def empty(n, dtype):
    """A contiguous target."""
    return torch.empty(n, dtype=dtype)


def spread(n, dtype):
    """A target with gaps."""
    return torch.empty(2 * n, dtype=dtype)[::2]


def multinomial(n, dtype, g, categories):
    """Indices drawn from weights that are no random stream themselves."""
    weights = (torch.arange(categories) % 7 + torch.arange(categories) % 3).to(dtype)
    return torch.multinomial(weights, n, True, generator=g)


#: name, parameters of each row, dtypes, and how a tensor of n elements is made.
STREAMS = (
    (
        "uniform",
        ((0.0, 1.0), (-0.3, 2.7), (1.0, 1.0)),
        FLOATS,
        lambda n, d, g, a, b: empty(n, d).uniform_(a, b, generator=g),
    ),
    ("normal", ((0.0, 1.0), (0.5, 2.3)), FLOATS, lambda n, d, g, a, b: empty(n, d).normal_(a, b, generator=g)),
    ("normal_spread", ((0.5, 2.3),), FLOATS, lambda n, d, g, a, b: spread(n, d).normal_(a, b, generator=g)),
    ("log_normal", ((1.0, 2.0),), FLOATS, lambda n, d, g, a, b: empty(n, d).log_normal_(a, b, generator=g)),
    ("exponential", ((1.0,), (1.7,)), FLOATS, lambda n, d, g, a: empty(n, d).exponential_(a, generator=g)),
    # Upstream's double-precision tangent is not reproduced to the last bit.
    (
        "cauchy",
        ((0.5, 2.0),),
        {k: v for k, v in FLOATS.items() if k != "f64"},
        lambda n, d, g, a, b: empty(n, d).cauchy_(a, b, generator=g),
    ),
    (
        "geometric",
        ((0.001,), (0.3,)),
        {**FLOATS, **INTEGERS},
        lambda n, d, g, p: empty(n, d).geometric_(p, generator=g),
    ),
    ("bernoulli", ((0.1,), (0.5,)), WITHOUT_UNSIGNED, lambda n, d, g, p: empty(n, d).bernoulli_(p, generator=g)),
    (
        "bernoulli_single",
        ((0.3,),),
        WITHOUT_UNSIGNED,
        lambda n, d, g, p: empty(n, d).bernoulli_(torch.full((n,), p), generator=g),
    ),
    ("random", ((),), WITHOUT_UNSIGNED, lambda n, d, g: empty(n, d).random_(generator=g)),
    (
        "random_full",
        ((),),
        {"i64": torch.int64, **{k: FLOATS[k] for k in ("f32", "f64", "bf16")}},
        lambda n, d, g: empty(n, d).random_(-(2**63), None, generator=g),
    ),
    ("random_from_to", ((0, 2),), BOOL, lambda n, d, g, a, b: empty(n, d).random_(a, b, generator=g)),
    (
        "random_from_to",
        ((0, 2), (0, 100)),
        {**FLOATS, **INTEGERS, **WIDER_UNSIGNED},
        lambda n, d, g, a, b: empty(n, d).random_(a, b, generator=g),
    ),
    (
        "random_from_to",
        ((-(2**62), 2**62), (0, 2**63 - 1), (0, 2**28 - 1), (0, 2**28), (-5, 2**32)),
        {"i64": torch.int64},
        lambda n, d, g, a, b: empty(n, d).random_(a, b, generator=g),
    ),
    (
        "random_from_to",
        ((-3000, 5001), (0, 65504)),
        {"f16": torch.float16, "bf16": torch.bfloat16},
        lambda n, d, g, a, b: empty(n, d).random_(a, b, generator=g),
    ),
    (
        "random_from_to",
        ((-(2**25) - 3, 2**25 + 3), (-(2**40) - 1, 2**33 + 1)),
        {"f32": torch.float32},
        lambda n, d, g, a, b: empty(n, d).random_(a, b, generator=g),
    ),
    (
        "randperm",
        ((),),
        {k: WITHOUT_UNSIGNED[k] for k in ("i16", "i32", "i64", "f32", "f64")},
        lambda n, d, g: torch.randperm(n, dtype=d, generator=g),
    ),
    ("multinomial", ((50,), (1000,)), FLOATS, multinomial),
)


def digest(data):
    """Enough of the hash of a tensor's bytes."""
    return hashlib.sha256(
        data.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()
    ).hexdigest()[:8]


def rows():
    """Every line of the file."""
    for name, settings, dtypes, fill in STREAMS:
        for parameters in settings:
            for label, dtype in dtypes.items():
                for seed in SEEDS:
                    g = torch.Generator().manual_seed(seed)
                    # A single multinomial sample takes another path.
                    sizes = [*SIZES[name == "multinomial" :], *([LONG] if seed == SEEDS[1] else [])]
                    hashes = [f"{n}:{digest(fill(n, dtype, g, *parameters))}" for n in sizes]
                    shown = " ".join(str(p) for p in parameters)
                    yield "\t".join((name, shown, label, str(seed), " ".join(hashes), digest(g.get_state())))


def main():
    """Writes the file."""
    torch.set_warn_always(False)
    version = torch.__version__.split("+")[0]
    lines = [
        f"# The random streams of torch {version}; written by `cargo xtask golden random_streams`.",
        "# stream\tparameters\telements\tseed\tlength:sha256 ...\tsha256 of the final state",
        *rows(),
    ]
    path = Path(os.environ["TORCHNATIVE_DATA"]) / "random_streams.tsv"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 2} streams")


if __name__ == "__main__":
    main()
