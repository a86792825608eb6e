"""The native wheel, packed and installed by pip."""

import csv
import importlib.metadata
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    """A wheel around a module that is no module: packing does not look inside."""
    folder = tmp_path_factory.mktemp("wheel")
    module, library = folder / "lib_C.so", folder / "libtorch_global_deps.so"
    module.write_bytes(b"module")
    library.write_bytes(b"library")
    command = [sys.executable, ROOT / "native" / "wheel.py", tree, "--module", module, "--global-deps", library]
    printed = subprocess.run([*command, "--out", folder], check=True, capture_output=True, text=True).stdout
    return Path(printed.strip())


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """Where pip put its files."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-index", "--no-compile", f"--target={folder}", wheel], check=True)
    return folder


def test_the_wheel_has_one_distribution_at_its_top_and_lists_every_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        tops = {name.split("/")[0] for name in names}
        info = next(name for name in tops if name.endswith(".dist-info"))
        listed = {row[0] for row in csv.reader(archive.read(f"{info}/RECORD").decode().splitlines())}
    assert tops == {"torch", "torchgen", "functorch", "torchnative", info, info.replace(".dist-info", ".data")}
    assert len(names) == len(set(names)) and set(names) == listed
    assert wheel.name.startswith("torchnative-") and "-cp313-abi3-" in wheel.name


def test_both_distributions_are_installed(site):
    found = {entry.name: entry for entry in importlib.metadata.distributions(path=[str(site)])}
    assert set(found) == {"torch", "torchnative"}
    assert found["torch"].version == "2.15.0"
    assert (site / "torch" / "_C.abi3.so").read_bytes() == b"module"
    assert (site / "torch" / "lib" / "libtorch_global_deps.so").read_bytes() == b"library"
    (device,) = found["torchnative"].entry_points
    assert (device.group, device.value) == ("torch.backends", "torchnative.webgpu:_autoload")
    assert (site / "torchnative" / "webgpu.py").exists()
    for entry in found.values():
        assert not [line for line in entry.requires if "cuda" in line or "nvidia" in line or "triton" in line]
        assert all(file.locate().exists() for file in entry.files)


def test_the_same_files_make_the_same_wheel(wheel, tree, tmp_path):
    module, library = wheel.parent / "lib_C.so", wheel.parent / "libtorch_global_deps.so"
    command = [sys.executable, ROOT / "native" / "wheel.py", tree, "--module", module, "--global-deps", library]
    subprocess.run([*command, "--out", tmp_path], check=True, capture_output=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
