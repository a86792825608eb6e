"""Finds the vendored upstream tree and loads its own code generator as a library.

Nothing of upstream is copied here: every generator asks the pinned tree's `torchgen` package to
parse the packaged YAML, and writes what it answers as compact tables of facts.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

TORCH_VERSION = "2.15.0"
REPOSITORY = Path(__file__).resolve().parents[2]
ENGINE_TABLES = Path("core/engine/src/generated")
PYTHON_TABLES = Path("core/torch_c/src/generated")


def default_tree() -> Path:
    """Where `vendor` unpacks the pinned wheel, unless TORCHNATIVE_TREE names another place."""
    if named := os.environ.get("TORCHNATIVE_TREE"):
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "torchnative" / "vendor" / f"torch-{TORCH_VERSION}"


def parse_arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tree", type=Path, default=default_tree(), help="unpacked upstream wheel")
    parser.add_argument("--output", type=Path, default=REPOSITORY, help="repository root to write the tables under")
    return parser.parse_args()


def use_tree(tree: Path) -> Path:
    """Makes the tree's torchgen importable and returns its folder of packaged YAML."""
    packaged = tree / "torchgen" / "packaged"
    if not packaged.is_dir():
        sys.exit(f"no upstream tree at {tree}; run `cargo xtask vendor` or pass --tree")
    # The tree is compared byte for byte with upstream's elsewhere: leave no caches in it.
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree))
    return packaged


def load_native(packaged: Path):
    """Upstream's own reading of native_functions.yaml, generated overloads included."""
    from torchgen.gen import parse_native_yaml

    native = packaged / "ATen" / "native"
    return parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml"))


def in_table_order(functions) -> list:
    """YAML order, with each generated overload right after the entry whose `autogen` asks for it."""
    generated = {f.func.name: f for f in functions if "generated" in f.tags}
    ordered = []
    for f in functions:
        if "generated" in f.tags:
            continue
        ordered.append(f)
        ordered.extend(generated.pop(name) for name in f.autogen if name in generated)
    if generated:
        sys.exit(f"generated overloads no entry asks for: {sorted(map(str, generated))}")
    return ordered


def write(output: Path, name: Path, text: str) -> None:
    target = output / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {name} ({len(text):,} bytes)")
