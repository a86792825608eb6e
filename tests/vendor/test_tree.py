"""What is shipped is upstream's, byte for byte."""

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "vendor"))

import distinfo
import manifest
from pins import Pin, digest

PACKAGES = ("torch", "torchgen", "functorch")


def record_hash(path):
    """The file's hash as RECORD spells it, by another road than the code under test."""
    value = hashlib.sha256(path.read_bytes()).digest()
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


@pytest.fixture(scope="module")
def upstream_record(tree):
    """The hashes in the RECORD that came with upstream's wheel."""
    with open(tree / "torch-2.15.0.dist-info" / "RECORD", newline="") as file:
        return {path: value.removeprefix("sha256=") for path, value, _ in csv.reader(file)}


def test_every_python_file_of_the_wheel_is_in_the_tree_unchanged(tree, upstream_record):
    expected = {path: value for path, value in upstream_record.items() if path.endswith(".py")}
    assert len(expected) == 2564
    found = {path.relative_to(tree).as_posix(): record_hash(path) for path in tree.rglob("*.py")}
    assert found == expected


def test_the_manifest_lists_the_tree(tree, upstream_record):
    listed = manifest.load()
    found = {
        path.relative_to(tree).as_posix(): record_hash(path)
        for path in tree.rglob("*")
        if path.is_file() and path.name != ".complete"
    }
    assert found == listed
    assert {path: upstream_record[path] for path in listed if upstream_record[path]} == {
        path: value for path, value in listed.items() if upstream_record[path]
    }
    assert [path for path in listed if not upstream_record[path]] == ["torch-2.15.0.dist-info/RECORD"]


def test_what_is_importable_is_the_tree(upstream_record):
    site = Path(importlib.util.find_spec("torch").origin).parents[1]
    expected = {path: value for path, value in upstream_record.items() if path.endswith(".py")}
    found = {
        path.relative_to(site).as_posix(): record_hash(path)
        for package in PACKAGES
        for path in (site / package).rglob("*.py")
    }
    assert found == expected


def test_only_our_own_files_are_added():
    site = Path(importlib.util.find_spec("torch").origin).parents[1]
    listed = manifest.load()
    added = {
        path.relative_to(site).as_posix()
        for package in PACKAGES
        for path in (site / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.relative_to(site).as_posix() not in listed
    }
    library = {"darwin": "libtorch_global_deps.dylib", "win32": "libtorch_global_deps.dll"}
    assert added == {
        "torch/_C.abi3.so",
        "torch/bin/torch_shm_manager",
        f"torch/lib/{library.get(sys.platform, 'libtorch_global_deps.so')}",
    }


def test_the_pinned_version_answers():
    assert importlib.metadata.version("torch") == Pin.load("torch").version == "2.15.0"


def test_no_cuda_package_is_required(tree):
    upstream = (tree / "torch-2.15.0.dist-info" / "METADATA").read_text()
    installed = importlib.metadata.distribution("torch")
    requires = [re.split(r"[^\w-]", line)[0] for line in installed.requires if "extra ==" not in line]
    assert requires == ["filelock", "typing-extensions", "setuptools", "sympy", "networkx", "jinja2", "fsspec"]
    kept = distinfo.metadata(upstream).splitlines()
    dropped = [line for line in upstream.splitlines() if line not in kept]
    assert all('platform_system == "Linux"' in line for line in dropped)


def test_the_installed_record_holds(tree):
    installed = importlib.metadata.distribution("torch")
    listed = {file.as_posix(): file for file in installed.files}
    assert all(file.locate().exists() for file in listed.values())
    hashed = [file for file in listed.values() if file.hash and file.as_posix().startswith("torch-2.15.0.dist-info")]
    assert hashed
    assert all(record_hash(Path(file.locate())) == file.hash.value for file in hashed)


def test_licences_are_installed():
    folder = Path(importlib.metadata.distribution("torch").locate_file("torch-2.15.0.dist-info/licenses"))
    listed = [path for path in manifest.load() if "/licenses/" in path]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == len(listed) == 61


def test_a_wheel_with_another_hash_is_refused(tmp_path):
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"not the wheel")
    assert digest(wheel) != Pin.load("torch").sha256
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    pin = Pin("torchnative-no-such-package", "0", "x.whl", "0" * 64, ("--no-index",))
    (downloads / "x.whl").write_bytes(b"stale")
    # The stale file is not taken: pip is asked, and has no index here.
    with pytest.raises(Exception, match="returned non-zero"):
        pin.fetch(tmp_path)


def test_the_manifest_survives_its_own_format():
    hashes = {"a/b.py": "H1", "a/c/d.py": "H2", "a/c.py": "H3", "b/with space.txt": "H4"}
    assert manifest.load(manifest.dump("w.whl", "00", hashes)) == hashes
