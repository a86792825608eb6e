"""What tests share: the vendored tree, the checkpoint, and recorded values."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _from_cache(variable, script, *words):
    """The folder in `variable`, or what `script` prints when the tests are started by hand."""
    if folder := os.environ.get(variable):
        return Path(folder)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchnative"
    command = [sys.executable, ROOT / "vendor" / script, *words, cache]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


@pytest.fixture(scope="session")
def tree():
    """The unpacked upstream tree."""
    return _from_cache("TORCHNATIVE_TREE", "tree.py", "unpack")


@pytest.fixture(scope="session")
def checkpoint():
    """The demo's checkpoint as a folder for `from_pretrained`."""
    return _from_cache("TORCHNATIVE_CHECKPOINT", "checkpoint.py")


@pytest.fixture(scope="session")
def recorded():
    """Loads a file of `tests/data`."""
    return lambda name: json.loads((ROOT / "tests" / "data" / name).read_text())
