"""The main job: the checkpoint, run by unmodified transformers, gives upstream's tokens."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "xtask" / "py"))


@pytest.fixture(scope="module")
def demo():
    """The demo's module. Imported late, so that a broken torch fails these tests and no others."""
    import demo

    return demo


@pytest.fixture(scope="module")
def loaded(demo, checkpoint):
    """The model and the tokenizer in float32."""
    return demo.load(checkpoint)


@pytest.mark.parametrize("number", range(4))
def test_the_tokens_are_upstreams(demo, loaded, recorded, number):
    run = recorded("generation.json")["runs"][number]
    settings = {name: run[name] for name in ("max_new_tokens", "sample", "seed") if name in run}
    model, tokenizer = loaded
    assert demo.encode(tokenizer, run["prompt"])["input_ids"][0].tolist() == run["prompt_ids"]
    pieces = []
    assert demo.stream(model, tokenizer, run["prompt"], pieces.append, **settings) == run["ids"]
    assert "".join(pieces) == run["text"]
    assert len(pieces) > len(run["ids"]) / 2, "the text arrives in pieces, not at the end"


def test_the_recording_covers_what_it_must(recorded):
    runs = recorded("generation.json")["runs"]
    assert [len(run["ids"]) for run in runs] == [64, 64, 64, 64]
    assert [run.get("sample", False) for run in runs] == [False, False, False, True]
    assert min(run["margin"] for run in runs[:3]) > 0.03
