"""Records what upstream's random operators return: `random_ops.tsv`.

Each row is a Python expression; it sees `torch` and a seeded generator `g`, and the default generator is seeded
alike. Kept are the first bytes of the SHA-256 of the tensor and of the state of both generators afterwards.
"""

import hashlib
import os
from pathlib import Path

import torch

SEED = 42

CASES = {
    "uniform_transposed": "torch.empty(30, 50).t().uniform_(generator=g)",
    "normal_transposed": "torch.empty(30, 50).t().normal_(generator=g)",
    "normal_sliced": "torch.empty(30, 50, dtype=torch.float64)[::2, 1::3].normal_(generator=g)",
    "normal_complex": "torch.empty(40, dtype=torch.complex64).normal_(1, 2, generator=g)",
    "uniform_complex_sliced": "torch.empty(40, dtype=torch.complex128)[::2].uniform_(generator=g)",
    "rand": "torch.rand(3, 4, generator=g)",
    "randn": "torch.randn(33, generator=g, dtype=torch.bfloat16)",
    "randint": "torch.randint(3, 1000, (5, 7), generator=g)",
    "randint_byte": "torch.randint(200, (50,), generator=g, dtype=torch.uint8)",
    "randint_half": "torch.randint(-3000, 3001, (50,), generator=g, dtype=torch.float16)",
    "randperm": "torch.randperm(77, generator=g, dtype=torch.int32)",
    "random_bool": "torch.empty(50, dtype=torch.bool).random_(generator=g)",
    "random_from": "torch.empty(50, dtype=torch.int16).random_(5, None, generator=g)",
    "exponential_sliced": "torch.empty(100, dtype=torch.float16)[::3].exponential_(2.0, generator=g)",
    "geometric": "torch.empty(50, dtype=torch.int64).geometric_(0.01, generator=g)",
    "bernoulli": "torch.bernoulli((torch.arange(60.0).reshape(6, 10) / 60).t(), generator=g)",
    "bernoulli_expanded": "torch.empty(6, 10).bernoulli_(torch.arange(10.0, dtype=torch.float64) / 10, generator=g)",
    "bernoulli_bool": "torch.empty(60, dtype=torch.bool).bernoulli_(0.3, generator=g)",
    "multinomial_one": "torch.multinomial(torch.arange(1.0, 61).reshape(4, 15), 1, generator=g)",
    "multinomial_one_transposed": (
        "torch.multinomial(torch.arange(1.0, 61).reshape(15, 4).t().to(torch.bfloat16), 1, generator=g)"
    ),
    "multinomial_replacement": "torch.multinomial(torch.arange(1.0, 61).reshape(4, 15), 9, True, generator=g)",
    "multinomial": "torch.multinomial(torch.arange(1.0, 61).reshape(4, 15), 5, generator=g)",
    "normal_tensor_tensor": "torch.normal(torch.arange(40.0), torch.arange(40.0) / 10, generator=g)",
    "normal_tensor_float": "torch.normal(torch.arange(40.0), 2.5, generator=g)",
    "normal_float_tensor": "torch.normal(1.5, torch.arange(40.0) / 10, generator=g)",
    "normal_float_float": "torch.normal(1.5, 2.0, (5, 8), generator=g)",
    "dropout": "torch.dropout(torch.arange(100.0) + 1, 0.3, True)",
    "native_dropout": "torch.native_dropout(torch.arange(100.0) + 1, 0.3, True)[0]",
    "feature_dropout": "torch.feature_dropout(torch.arange(120.0).reshape(4, 5, 6) + 1, 0.3, True)",
    "alpha_dropout": "torch.alpha_dropout(torch.arange(100.0) + 1, 0.3, True)",
    "rand_like": "torch.rand_like(torch.empty(5, 6).t())",
    "randn_like": "torch.randn_like(torch.empty(5, 6), dtype=torch.float64)",
    "randint_like": "torch.randint_like(torch.empty(50), 7)",
}


def digest(tensor):
    """Enough of the hash of a tensor's elements in row-major order."""
    rows = tensor.clone(memory_format=torch.contiguous_format)
    return hashlib.sha256(rows.view(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def evaluate(expression):
    """The digests of one row."""
    g = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    result = eval(expression, {"torch": torch, "g": g})
    return digest(result), digest(g.get_state()), digest(torch.get_rng_state())


def main():
    """Writes the file."""
    version = torch.__version__.split("+")[0]
    lines = [
        f"# Random operators of torch {version}, seed {SEED}; written by `cargo xtask golden random_ops`.",
        "# name\texpression\tsha256\tsha256 of the state of g\tsha256 of the state of the default generator",
        *("\t".join((name, expression, *evaluate(expression))) for name, expression in CASES.items()),
    ]
    path = Path(os.environ["TORCHNATIVE_DATA"]) / "random_ops.tsv"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} expressions")


if __name__ == "__main__":
    main()
