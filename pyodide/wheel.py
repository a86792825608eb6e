#!/usr/bin/env python3
"""Packs the Pyodide wheel: upstream's tree as bytecode, our module, and the packages that have no Emscripten wheel.

    wheel.py --target pyodide-314 --tree DIR --module FILE --companion WHEEL --node FILE --pyodide DIR
             --cache DIR --out DIR

Prints the wheel's path. What is inside:

* `torch`, `torchgen` and `functorch` compiled by the CPython of that very Pyodide (`compile_tree.mjs`), because
  compiling 50 MB of source in the browser would make an import take half a minute. A module whose source is read at
  run time keeps its `.py` beside the bytecode (`keeps_source`).
* `torch/_C.abi3.so`, and an empty library where upstream's start loads one.
* The `torchnative` package, and the companions (tokenizers, safetensors): transformers needs them and the package index
  has no Emscripten build of either.
* torch's and the companions' metadata. A wheel may carry one `.dist-info` only, so the others travel as data files that
  the installer puts into site-packages; from then on `torch>=2.6` is a satisfied requirement.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "vendor"))

import distinfo

PACKAGES = ("torch", "torchgen", "functorch")
DATE = (2026, 1, 1, 0, 0, 0)
# The largest wheel we are willing to make a page download.
LARGEST = 40 << 20


class Target:
    """A CPython release of Pyodide."""

    def __init__(self, minor: int, platform: str) -> None:
        self.python = f"3.{minor}"
        self.cache_tag = f"cpython-3{minor}"
        # Bytecode belongs to one CPython, so the wheel does too, although the module alone would be abi3.
        self.tag = f"cp3{minor}-cp3{minor}-{platform}_wasm32"
        self.site = f"lib/python3.{minor}/site-packages"


TARGETS = {
    "pyodide-314": Target(14, "pyemscripten_2026_0"),
    "pyodide-313": Target(13, "pyemscripten_2025_0"),
}

# Left out of the tree: headers, programs and libraries of the C++ build, stubs for type checkers.
DROPPED_FOLDERS = ("torch/include/", "torch/bin/", "torch/lib/", "torch/share/")
DROPPED_ENDS = (".pyi", ".so", ".dylib", ".dll", ".h", ".hpp", ".cpp", ".cu", ".cuh", ".a", ".lib", ".cmake")

# Modules whose source somebody reads while the program runs.
SOURCE_READ = (
    # `@_overload` parses the body of what it decorates at import, and warns when it cannot.
    "torch/functional.py",
    "torch/nn/functional.py",
    "torch/nn/modules/rnn.py",
    # Scripted when forward-mode differentiation is first used.
    "torch/_decomp/decompositions.py",
    "torch/_decomp/decompositions_for_jvp.py",
    "torch/_refs/__init__.py",
    # Scripted as they are imported.
    "torch/jit/_decompositions.py",
    "torch/jit/_shape_functions.py",
)
# Folders whose modules are found by listing the `.py` files in them.
SOURCE_LISTED = ("torch/_export/db/examples", "torch/_dynamo/backends", "torch/_inductor/kernel")
# Configuration modules tokenize their own source for its comments.
CONFIGURATION = re.compile(r"^_?install_config_module\(sys\.modules", re.MULTILINE)


def keeps_source(name: str, text: str) -> bool:
    """Whether the module in the file `name` of the tree must ship as source too."""
    listed = os.path.dirname(name) in SOURCE_LISTED
    return listed or name in SOURCE_READ or CONFIGURATION.search(text) is not None


def tree_files(tree: Path) -> list[str]:
    """The files of upstream's packages that are of use here, sorted."""
    names = []
    for package in PACKAGES:
        for folder, folders, files in os.walk(tree / package):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            names += [(Path(folder) / f).relative_to(tree).as_posix() for f in sorted(files)]
    return [n for n in names if not n.startswith(DROPPED_FOLDERS) and not n.endswith((*DROPPED_ENDS, ".pyc"))]


def bytecode(args: argparse.Namespace, target: Target, names: list[str]) -> Path:
    """The folder with the compiled tree, made unless the cache has it for these sources and this Pyodide."""
    digest = hashlib.sha256()
    digest.update(json.loads((args.pyodide / "package.json").read_text())["version"].encode())
    digest.update((Path(__file__).parent / "tools/compile_tree.mjs").read_bytes())
    for name in names:
        if name.endswith(".py"):
            digest.update(name.encode() + b"\0" + hashlib.sha256((args.tree / name).read_bytes()).digest())
    folder: Path = args.cache / f"bytecode-{target.python}-{digest.hexdigest()[:16]}"
    done = folder / ".complete"
    if not done.exists():
        script = Path(__file__).parent / "tools/compile_tree.mjs"
        command = [args.node, script, args.pyodide, args.tree, folder, f"/{target.site}", *PACKAGES]
        subprocess.run([str(word) for word in command], check=True)
        done.touch()
    return folder


def empty_library() -> bytes:
    """A side module without content. Upstream's start loads `libtorch_global_deps.so` before anything else."""
    name, no_memory_no_table = b"dylink.0", bytes([1, 4, 0, 0, 0, 0])
    body = bytes([len(name)]) + name + no_memory_no_table
    return b"\0asm\1\0\0\0" + bytes([0, len(body)]) + body


def record(files: dict[str, bytes], own: str) -> bytes:
    """The text of a RECORD that lies at `own` and lists `files`."""
    return distinfo.record(own, [distinfo.entry(name, data) for name, data in files.items()]).encode()


def torch_files(args: argparse.Namespace, target: Target) -> dict[str, bytes]:
    """Upstream's packages as they are installed."""
    names = tree_files(args.tree)
    compiled = bytecode(args, target, names)
    files: dict[str, bytes] = {}
    for name in names:
        data = (args.tree / name).read_bytes()
        if not name.endswith(".py"):
            files[name] = data
            continue
        code = compiled / (name + "c")
        if not code.exists() or keeps_source(name, data.decode()):
            # A file that is no Python of this version is a template; it stays as it is.
            files[name] = data
            name = f"{os.path.dirname(name)}/__pycache__/{Path(name).stem}.{target.cache_tag}.py"
        if code.exists():
            files[name + "c"] = code.read_bytes()
    files["torch/_C.abi3.so"] = args.module.read_bytes()
    files["torch/lib/libtorch_global_deps.so"] = empty_library()
    files["torch/bin/torch_shm_manager"] = distinfo.SHM_MANAGER.encode()
    return files


def torch_metadata(args: argparse.Namespace, target: Target, files: dict[str, bytes]) -> dict[str, bytes]:
    """torch's dist-info, with a RECORD of what is really there."""
    kept = distinfo.files(args.tree, target.tag)
    own = f"{next(iter(kept)).split('/')[0]}/RECORD"
    return kept | {own: record(files | kept, own)}


def companion(wheel: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """A companion's files and its dist-info."""
    files, info = {}, {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            (info if ".dist-info/" in name else files)[name] = archive.read(name)
    return files, info


def project() -> dict[str, str]:
    """The project's version and licence, from the workspace manifest."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]


def requirements(upstream: str) -> list[str]:
    """What torch's metadata requires, so that it is satisfied once we are installed, and what imports need besides."""
    wanted = []
    for line in upstream.splitlines():
        requirement = line.removeprefix("Requires-Dist: ")
        if requirement == line or "extra ==" in line:
            continue
        # Pyodide's own networkx depends on matplotlib; the newer one on the package index on nothing.
        wanted.append("networkx>=3.7" if requirement.startswith("networkx") else requirement)
    # transformers imports huggingface_hub, which imports this without asking for it on Emscripten.
    return [*wanted, "httpcore2"]


def metadata(target: Target, upstream: str) -> str:
    """Our METADATA."""
    package = project()
    lines = [
        "Metadata-Version: 2.4",
        "Name: torchnative",
        f"Version: {package['version']}",
        "Summary: Unmodified PyTorch on a Rust core",
        f"License-Expression: {package['license']}",
        "License-File: LICENSE",
        f"Requires-Python: =={target.python}.*",
        *(f"Requires-Dist: {requirement}" for requirement in requirements(upstream)),
    ]
    return "\n".join(lines) + "\n"


def pack(out: Path, files: dict[str, bytes], own: str) -> None:
    """Writes the wheel; the same input gives the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    files = files | {own: record(files, own)}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)


def contents(args: argparse.Namespace, target: Target) -> tuple[str, dict[str, bytes]]:
    """The name of our dist-info and every file of the wheel but its RECORD."""
    files = torch_files(args, target)
    data = torch_metadata(args, target, files)
    upstream = next(text for name, text in data.items() if name.endswith("/METADATA")).decode()
    for path in sorted((ROOT / "python/torchnative").rglob("*.py")):
        files[path.relative_to(ROOT / "python").as_posix()] = path.read_bytes()
    for wheel in args.companion:
        more, info = companion(wheel)
        files |= more
        data |= info
    stem = f"torchnative-{project()['version']}"
    files |= {f"{stem}.data/data/{target.site}/{name}": content for name, content in data.items()}
    files[f"{stem}.dist-info/METADATA"] = metadata(target, upstream).encode()
    files[f"{stem}.dist-info/WHEEL"] = distinfo.wheel_file(target.tag).encode()
    files[f"{stem}.dist-info/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return f"{stem}.dist-info", files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True, choices=TARGETS)
    for name in ("tree", "module", "node", "pyodide", "cache", "out"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--companion", action="append", default=[], type=Path)
    args = parser.parse_args()
    target = TARGETS[args.target]
    info, files = contents(args, target)
    own = f"{info}/RECORD"
    out = args.out / f"{info.removesuffix('.dist-info')}-{target.tag}.whl"
    # Packing takes longer than all else; a wheel with this very RECORD need not be packed again.
    if not (out.exists() and packed_record(out, own) == record(files, own)):
        pack(out, files, own)
    size = out.stat().st_size
    if size > LARGEST:
        sys.exit(f"{out.name} has {size >> 20} MiB, more than the {LARGEST >> 20} a page should have to download")
    print(out)


def packed_record(wheel: Path, own: str) -> bytes | None:
    """The RECORD inside a wheel, if it is a whole one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(own)
    except (zipfile.BadZipFile, KeyError):
        return None


if __name__ == "__main__":
    main()
