"""Records what tiny models of transformers are initialised with and answer: `models.json`.

A result is kept as its shape, its dtype, some of its values, and how far an answer may be from them: four times
upstream's own error, which is its distance from the same model in float64, and a few units of the last digit of the
largest value.
"""

import json
import os
from pathlib import Path

import torch
import transformers
from _models import ARCHITECTURES, build, digest, run, sample


def record(name):
    """One architecture's entry."""
    model, inputs = build(name)
    drawn, computed = digest(model)
    results = run(model, inputs)
    if hasattr(model, "set_experts_implementation"):
        # The grouped product does not take float64.
        model.set_experts_implementation("eager")
    entries = []
    for ours, exact in zip(results, run(model, inputs, torch.float64), strict=True):
        wide = ours.double()
        error = (wide - exact).abs().nan_to_num(0, 0, 0).max().item() if ours.numel() else 0.0
        scale = wide.abs().nan_to_num(0, 0, 0).max().item() if ours.numel() else 0.0
        bound = 4 * error + 4 * torch.finfo(torch.float32).eps * scale
        entries.append(
            [list(ours.shape), str(ours.dtype), float(f"{bound:.2g}"), [float(f"{v:.9g}") for v in sample(ours)]]
        )
    return {"drawn": drawn, "computed": computed, "results": entries}


def main():
    """Writes the file."""
    path = Path(os.environ["TORCHNATIVE_DATA"]) / "models.json"
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    rows = [f'"{name}": {json.dumps(record(name), separators=(",", ":"))}' for name in ARCHITECTURES]
    path.write_text("{" + f'"versions": {json.dumps(versions)},\n' + ",\n".join(rows) + "}\n")
    print(f"{len(ARCHITECTURES)} models")


if __name__ == "__main__":
    main()
