"""Records what upstream generates from the demo's checkpoint: `generation.json`.

Three prompts, 64 greedy tokens each, and one seeded sampled run, all in float32.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "xtask" / "py"))

import demo
import torch

# Chosen among others for their margins: where two tokens are all but equally likely, rounding alone decides.
PROMPTS = ("What is gravity?", "Explain photosynthesis to a child.", "How do I bake bread?")
TOKENS = 64
SAMPLED = {"prompt": "Explain how a steam engine works.", "seed": 20260, "max_new_tokens": TOKENS}


def run(model, tokenizer, prompt, **settings):
    """One run as it is recorded."""
    pieces = []
    ids = demo.stream(model, tokenizer, prompt, pieces.append, **settings)
    prompt_ids = demo.encode(tokenizer, prompt)["input_ids"][0].tolist()
    recorded = {"prompt": prompt, **settings, "prompt_ids": prompt_ids, "ids": ids, "text": "".join(pieces)}
    if not settings.get("sample"):
        recorded["margin"] = margin(model, prompt_ids, ids)
    return recorded


def margin(model, prompt_ids, ids):
    """By how much the likeliest token led, where it led least: how far logits may be off before a token changes."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt_ids + ids])).logits[0, len(prompt_ids) - 1 : -1]
    best = logits.topk(2).values
    return round((best[:, 0] - best[:, 1]).min().item(), 4)


def main():
    """Writes the file."""
    model, tokenizer = demo.load(os.environ["TORCHNATIVE_CHECKPOINT"])
    runs = [run(model, tokenizer, prompt, max_new_tokens=TOKENS) for prompt in PROMPTS]
    settings = {**SAMPLED, "sample": True}
    runs.append(run(model, tokenizer, settings.pop("prompt"), **settings))
    recorded = {"torch": torch.__version__.split("+")[0], "dtype": "float32", "runs": runs}
    path = Path(os.environ["TORCHNATIVE_DATA"]) / "generation.json"
    text = json.dumps(recorded, indent=1)
    # One line a list of ids.
    for lists in (found for entry in runs for found in (entry["prompt_ids"], entry["ids"])):
        text = text.replace(json.dumps(lists, indent=1).replace("\n", "\n   "), json.dumps(lists))
    path.write_text(text + "\n")
    for entry in runs:
        print(f"{len(entry['ids'])} tokens: {entry['text'][:80]!r}")


if __name__ == "__main__":
    main()
