"""Random operators draw what upstream's draw: every expression that upstream recorded, evaluated here."""

import hashlib
from pathlib import Path

import pytest
import torch

DATA = Path(__file__).parents[1] / "data" / "random_ops.tsv"
SEED = 42


def rows():
    lines = DATA.read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def digest(tensor):
    dense = tensor.clone(memory_format=torch.contiguous_format)
    return hashlib.sha256(bytes(dense.view(torch.uint8).flatten().tolist())).hexdigest()[:8]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_draws(row):
    _, expression, values, own, default = row
    g = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    result = eval(expression, {"torch": torch, "g": g})
    assert (digest(result), digest(g.get_state()), digest(torch.get_rng_state())) == (values, own, default)
