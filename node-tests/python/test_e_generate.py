"""SmolLM2-135M-Instruct by unmodified transformers gives the tokens that upstream torch gave."""

import json
import os
import sys

from harness import needs_transformers


def recorded():
    with open("/data/generation.json") as file:
        return json.load(file)["runs"]


@needs_transformers
def test_tokens_are_upstreams():
    sys.path.insert(0, "/demo")
    import demo
    import torch

    assert os.path.exists("/checkpoint/model.safetensors")
    model, tokenizer = demo.load("/checkpoint")
    for run in recorded():
        settings = {name: run[name] for name in ("max_new_tokens", "sample", "seed") if name in run}
        pieces = []
        assert demo.encode(tokenizer, run["prompt"])["input_ids"][0].tolist() == run["prompt_ids"]
        ids = demo.stream(model, tokenizer, run["prompt"], pieces.append, **settings)
        assert ids == run["ids"], f"{run['prompt']}: {ids}"
        assert "".join(pieces) == run["text"]
        assert len(pieces) > 8, "the text did not come piece by piece"
    torch.manual_seed(0)
