#!/usr/bin/env python3
"""Gathers the wheels that micropip may install offline: index.py PYTHON CACHE, with pip in the interpreter PYTHON.

Pure wheels and the few Emscripten builds that the package index has are downloaded with pip, each once. Prints the
folder. What the index has not lies in `vendor/pyodide-wheels`; the Node runner serves both folders as one index.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Emscripten builds on the package index, by the platform they are for.
BUILT = {"pyemscripten_2026_0_wasm32": ("3.14", "pydantic-core==2.50.5")}


def wheel_stem(requirement: str) -> str:
    """The beginning of the file name of the wheel that `name==version` asks for."""
    name, version = requirement.split("==")
    return f"{re.sub(r'[-_.]+', '_', name).lower()}-{version}-"


def missing(folder: Path, requirements: list[str]) -> list[str]:
    there = [path.name.lower() for path in folder.glob("*.whl")]
    return [r for r in requirements if not any(name.startswith(wheel_stem(r)) for name in there)]


def download(python: str, folder: Path, requirements: list[str], *options: str) -> None:
    wanted = missing(folder, requirements)
    if not wanted:
        return
    print(f"» downloading {len(wanted)} wheels for the local index", file=sys.stderr)
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    subprocess.run([*command, *options, *wanted], check=True, stdout=sys.stderr)


def main() -> None:
    python, cache = sys.argv[1:]
    folder = Path(cache) / "pyodide-index"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pure = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    any_platform = ("--platform=any", "--implementation=py", "--abi=none", "--python-version=3.14")
    download(python, folder, pure, *any_platform)
    for platform, (version, *requirements) in BUILT.items():
        tag = "cp" + version.replace(".", "")
        options = (f"--platform={platform}", "--implementation=cp", f"--abi={tag}", f"--python-version={version}")
        download(python, folder, requirements, *options)
    print(folder)


if __name__ == "__main__":
    main()
