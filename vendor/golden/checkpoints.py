"""Records two small checkpoints as upstream writes them: `upstream.pt`, a zip archive, and `upstream_legacy.pt`."""

import os
from pathlib import Path

import torch


def contents():
    """Tensors that share a storage, a parameter, and a dtype that NumPy does not have."""
    base = torch.arange(6.0).view(2, 3)
    return {"base": base, "row": base[1], "half": torch.ones(2, dtype=torch.bfloat16), "w": torch.nn.Parameter(base)}


def main():
    """Writes both files."""
    folder = Path(os.environ["TORCHNATIVE_DATA"])
    torch.save(contents(), folder / "upstream.pt")
    torch.save(contents(), folder / "upstream_legacy.pt", _use_new_zipfile_serialization=False)
    print("2 checkpoints")


if __name__ == "__main__":
    main()
