#!/usr/bin/env python3
"""Builds the Rust companions, safetensors and tokenizers, for Emscripten from the sources on the package index.

`cargo xtask wheel --companions` runs this with the toolchain's environment already set (RUSTC, RUSTFLAGS, the linker).
Both are abi3 modules: one wheel serves every CPython of the platform. Oniguruma, tokenizers' regular expressions, is C:
clang compiles it against the headers of Emscripten's C library, from EM_SYSROOT when that is set, else from Debian's
emscripten package, of which nothing but the headers is unpacked.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from patch_tokenizers import patch

HERE = Path(__file__).parent
SOURCES = {"safetensors": "0.8.0", "tokenizers": "0.23.3"}


def run(*command: str | Path, **options: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def fetch(work: Path) -> None:
    """Downloads the sdists. pip would run their build backends; unearth only downloads."""
    tools = work / "tools"
    if not (tools / "bin/unearth").exists():
        venv.create(tools, with_pip=True)
        run(tools / "bin/pip", "install", "--quiet", "unearth", "packaging")
    for name, version in SOURCES.items():
        archive = work / f"{name}-{version}.tar.gz"
        if not archive.exists():
            run(tools / "bin/unearth", "--no-binary", f"{name}=={version}", "-d", work, stdout=subprocess.DEVNULL)
        folder = work / f"{name}-{version}"
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(work, filter="data")


def sysroot(work: Path) -> Path:
    """A folder whose include/ holds Emscripten's C headers."""
    if "EM_SYSROOT" in os.environ:
        return Path(os.environ["EM_SYSROOT"])
    found = work / "sysroot"
    if not (found / "include/stdio.h").exists():
        for old in work.glob("emscripten_*.deb"):
            old.unlink()
        run("apt-get", "download", "emscripten", cwd=work)
        (package,) = work.glob("emscripten_*.deb")
        found.mkdir(exist_ok=True)
        prefix = "./usr/share/emscripten/cache/sysroot"
        unpack = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
        run("tar", "-x", "-C", found, "--strip-components=6", f"{prefix}/include", stdin=unpack.stdout)
        if unpack.wait():
            sys.exit("dpkg-deb failed")
        package.unlink()
    return found


def compiler(work: Path) -> dict[str, str]:
    """Environment for the cc crate."""
    clang = next((c for c in ("clang-22", "clang") if shutil.which(c)), None)
    archiver = next((a for a in ("llvm-ar-22", "llvm-ar") if shutil.which(a)), None)
    if clang is None or archiver is None:
        sys.exit("the companions need clang and llvm-ar (Debian: apt-get install clang-22 llvm-22)")
    flags = f"--target=wasm32-unknown-emscripten --sysroot={sysroot(work)} -fPIC -O2"
    flags += " -fwasm-exceptions -mllvm -wasm-enable-sjlj"
    suffix = "wasm32_unknown_emscripten"
    return {f"CC_{suffix}": clang, f"AR_{suffix}": archiver, f"CFLAGS_{suffix}": flags}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--platform", action="append", required=True, help="such as pyemscripten_2026_0_wasm32")
    parser.add_argument("cargo", nargs=argparse.REMAINDER, help="the command that builds for Emscripten")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    fetch(work)
    patch(work / f"tokenizers-{SOURCES['tokenizers']}")
    env = os.environ | compiler(work) | {"CARGO_TARGET_DIR": str(work / "target")}
    release = work / "target/wasm32-unknown-emscripten/release"
    for name, built, module, licence in (
        ("safetensors", "safetensors_rust.wasm", "safetensors/_safetensors_rust.abi3.so", "LICENSE"),
        ("tokenizers", "tokenizers.wasm", "tokenizers/tokenizers.abi3.so", "tokenizers/LICENSE"),
    ):
        source = work / f"{name}-{SOURCES[name]}"
        # tokenizers' lock file loses what the patch removed; its other pins stay.
        locked = ["--locked"] if name == "safetensors" else []
        run(*args.cargo, *locked, cwd=source / "bindings/python", env=env)
        for platform in args.platform:
            run(
                *(sys.executable, HERE / "make_wheel.py", "--pkginfo", source / "PKG-INFO"),
                *("--tag", f"cp310-abi3-{platform}", "--out", args.out, "--license", source / licence),
                *(f"{source}/py_src/{name}={name}", f"{release / built}={module}"),
            )


if __name__ == "__main__":
    main()
