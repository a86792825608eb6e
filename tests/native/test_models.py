"""Tiny models of transformers: the first weights bit for bit, the answers within upstream's own error."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "vendor" / "golden"))
RECORDED = json.loads((ROOT / "tests" / "data" / "models.json").read_text())
NAMES = [name for name in RECORDED if name != "versions"]


def test_the_recording_is_of_these_versions_and_models():
    import torch
    import transformers
    from _models import ARCHITECTURES

    assert RECORDED["versions"] == {"torch": torch.__version__, "transformers": transformers.__version__}
    assert list(ARCHITECTURES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_model_starts_and_answers_as_upstreams(name):
    from _models import build, digest, run, sample

    expected = RECORDED[name]
    model, inputs = build(name)
    drawn, computed = digest(model)
    assert drawn == expected["drawn"], "the random weights differ"
    assert computed == pytest.approx(expected["computed"], rel=1e-6)
    results = run(model, inputs)
    assert [[list(t.shape), str(t.dtype)] for t in results] == [entry[:2] for entry in expected["results"]]
    for i, (tensor, (_, _, bound, values)) in enumerate(zip(results, expected["results"], strict=True)):
        assert sample(tensor) == pytest.approx(values, abs=bound, rel=0, nan_ok=True), f"result {i}"
