"""Packs the native wheel: upstream's tree, our module, and the metadata of both `torchnative` and `torch`.

    python native/wheel.py TREE --module FILE --global-deps FILE --out FOLDER         prints the wheel's path

A wheel may carry one dist-info folder at its top. torch's therefore travels in `.data/purelib`, from where pip puts it
beside ours: `importlib.metadata.version("torch")` answers, and what requires torch is satisfied.
"""

import argparse
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "vendor"))

import distinfo
import tree as vendored

#: Wheels are the same bytes whenever they are made from the same files.
DATE = (2020, 1, 1, 0, 0, 0)


def project():
    """The project's version and licence, from the workspace manifest."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]


def platform_tag():
    """The tag of the platform that runs this."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp313-abi3-{name}"


def metadata(package, tree):
    """Our METADATA. What upstream's Python files import is required here, and only that."""
    upstream = distinfo.metadata(next(tree.glob("torch-*.dist-info")).joinpath("METADATA").read_text())
    requires = [line for line in upstream.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    lines = [
        "Metadata-Version: 2.4",
        "Name: torchnative",
        f"Version: {package['version']}",
        "Summary: Unmodified PyTorch on a Rust core",
        f"License-Expression: {package['license']}",
        "License-File: LICENSE",
        "Requires-Python: >=3.13",
        *requires,
    ]
    return "\n".join(lines) + "\n"


def contents(tree, module, global_deps, tag):
    """Every file of the wheel but RECORD, as a mapping of path to bytes."""
    package = project()
    info = f"torchnative-{package['version']}.dist-info"
    purelib = f"torchnative-{package['version']}.data/purelib"
    files = {}
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if path.is_file() and name.startswith(("torch/", "torchgen/", "functorch/")):
            files[name] = path.read_bytes()
    for name, source in vendored.native_files(module, global_deps).items():
        files[name] = source.encode() if isinstance(source, str) else source.read_bytes()
    entries = [distinfo.entry(name, data) for name, data in files.items()]
    upstream = distinfo.files(tree, tag)
    record = f"{next(iter(upstream)).split('/')[0]}/RECORD"
    upstream[record] = distinfo.record(
        record, entries + [distinfo.entry(name, data) for name, data in upstream.items()]
    ).encode()
    files |= {f"{purelib}/{name}": data for name, data in upstream.items()}
    files[f"{info}/METADATA"] = metadata(package, tree).encode()
    files[f"{info}/WHEEL"] = distinfo.wheel_file(tag).encode()
    files[f"{info}/entry_points.txt"] = distinfo.ENTRY_POINTS.encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return info, files


def write(path, info, files):
    """Writes the wheel, its dist-info last as the format advises."""
    record = f"{info}/RECORD"
    listed = [distinfo.entry(name, data) for name, data in files.items()]
    files = {**files, record: distinfo.record(record, listed).encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in sorted(files.items(), key=lambda item: (item[0].startswith(info), item[0])):
            member = zipfile.ZipInfo(name, DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            executable = name.startswith("torch/bin/") or name.endswith(".so")
            member.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(member, data)


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Pack the native wheel.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--module", required=True)
    parser.add_argument("--global-deps", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    tag = platform_tag()
    info, files = contents(options.tree, options.module, options.global_deps, tag)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{info.removesuffix('.dist-info')}-{tag}.whl"
    write(path, info, files)
    print(path)


if __name__ == "__main__":
    main()
