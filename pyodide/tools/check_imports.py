#!/usr/bin/env python3
"""check_imports.py MODULE.wasm PYODIDE_DIR...: does Pyodide provide everything the side module imports?

Emscripten's loader resolves a missing function to a stub that aborts the interpreter at the first call, so a module
that loads is no proof. This lists the module's imports and looks each up among the exports of Pyodide's main module
(with the same signature) and its JavaScript library. Exits with 1 and the names if something is missing.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

KINDS = ("function", "table", "memory", "global", "tag")
TYPES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64", 0x7B: "v128", 0x70: "funcref", 0x6F: "externref"}
# Made by the loader itself for each side module.
LOADER = {"memory", "__indirect_function_table", "__stack_pointer", "__memory_base", "__table_base"}


class Reader:
    """Reads the primitive encodings of a WebAssembly binary."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def number(self) -> int:
        """An unsigned LEB128."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def name(self) -> str:
        size = self.number()
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def limits(self) -> None:
        if self.number() & 1:
            self.number()
        self.number()


@dataclass
class Module:
    """Imports as (module, name) -> (kind, signature), exports as name -> (kind, signature)."""

    imports: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    exports: dict[str, tuple[str, str]] = field(default_factory=dict)


def signature(reader: Reader) -> str:
    form = reader.byte()
    if form != 0x60:
        raise ValueError(f"type form {form:#x} is not a function")
    sides = [[TYPES.get(reader.byte(), "ref") for _ in range(reader.number())] for _ in range(2)]
    return f"({', '.join(sides[0])}) -> ({', '.join(sides[1])})"


def read(path: Path) -> Module:
    """Reads the type, import, function and export sections; the others are skipped."""
    data = path.read_bytes()
    if data[:8] != b"\0asm\1\0\0\0":
        raise ValueError(f"{path} is not a WebAssembly module")
    reader, module = Reader(data, 8), Module()
    types: list[str] = []
    functions: list[str] = []
    while reader.at < len(data):
        section, size = reader.byte(), reader.number()
        end = reader.at + size
        if section == 1:
            try:
                types = [signature(reader) for _ in range(reader.number())]
            except ValueError:
                types = []  # recursive types: names are still compared, signatures are not
        elif section == 2:
            for _ in range(reader.number()):
                key = (reader.name(), reader.name())
                kind, text = KINDS[reader.byte()], ""
                if kind == "function":
                    index = reader.number()
                    text = types[index] if types else ""
                    functions.append(text)
                elif kind == "table":
                    reader.byte()
                    reader.limits()
                elif kind == "memory":
                    reader.limits()
                elif kind == "global":
                    reader.at += 2
                else:
                    reader.byte()
                    reader.number()
                module.imports[key] = (kind, text)
        elif section == 3:
            for _ in range(reader.number()):
                index = reader.number()
                functions.append(types[index] if types else "")
        elif section == 7:
            for _ in range(reader.number()):
                name, kind, index = reader.name(), KINDS[reader.byte()], reader.number()
                text = functions[index] if kind == "function" and index < len(functions) else ""
                module.exports[name] = (kind, text)
        reader.at = end
    return module


def library(folder: Path) -> set[str]:
    """Names of the JavaScript library: the keys of the object `wasmImports` in Pyodide's loader."""
    script = next(p for p in (folder / "pyodide.asm.mjs", folder / "pyodide.asm.js") if p.exists())
    text = script.read_text(encoding="utf-8")
    match = re.search(r"wasmImports ?= ?\{([^{}]*)\}", text)
    if match is None:
        raise ValueError(f"{script} has no list of imports")
    return {entry.split(":")[0].strip().strip("\"'") for entry in match[1].split(",")}


def check(module: Module, folder: Path) -> list[str]:
    """What the module wants and this Pyodide has not."""
    main, script = read(folder / "pyodide.asm.wasm"), library(folder)
    missing = []
    for (space, name), (kind, wanted) in module.imports.items():
        if name in LOADER or (space.startswith("GOT.") and name in module.exports):
            continue
        if name in main.exports:
            _, found = main.exports[name]
            if kind == "function" and wanted and found and wanted != found:
                missing.append(f"{name}: wants {wanted}, Pyodide has {found}")
        elif name not in script:
            missing.append(f"{name} ({space} {kind})")
    return missing


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    module, failed = read(Path(sys.argv[1])), False
    for folder in map(Path, sys.argv[2:]):
        missing = check(module, folder)
        for line in missing:
            print(f"{folder.name}: unresolved {line}", file=sys.stderr)
        failed |= bool(missing)
        if not missing:
            print(f"{folder.name}: all {len(module.imports)} imports resolve")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
