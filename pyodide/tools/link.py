#!/usr/bin/env python3
"""Links a Rust cdylib into a Pyodide side module with wasm-ld alone.

rustc takes this for `emcc` (linker flavour `em`) when no Emscripten is installed. A Pyodide extension needs none: it is
a position-independent shared module whose libc, unwinder and CPython come from Pyodide's main module at load. So the
options meant for emcc are dropped, undefined symbols become imports, and only what rustc asks to export is exported.

WASM_LD names the linker (default: wasm-ld-22, then wasm-ld). TORCHNATIVE_WASM_NAMES=1 keeps function names.
"""

import json
import os
import shutil
import subprocess
import sys

# rustc asks for a version before it links.
EMSCRIPTEN_VERSION = "5.0.3"
# Options of emcc that wasm-ld does not know, by prefix.
EMCC_ONLY = ("-s", "-l", "-O", "-g", "-f", "-m", "--target", "-nodefaultlibs", "-nostdlib")


def translate(args: list[str]) -> tuple[list[str], list[str]]:
    """Splits emcc's arguments into what wasm-ld is to read and the symbols to export."""
    keep: list[str] = []
    exports: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "-o":
            keep += [arg, next(rest)]
        elif arg == "-s":
            setting = next(rest)
            if setting.startswith("EXPORTED_FUNCTIONS="):
                # Emscripten spells a C symbol with a leading underscore.
                exports = [name[1:] for name in json.loads(setting.split("=", 1)[1])]
        elif arg == "-l":
            next(rest)
        elif arg.startswith("-Wl,"):
            keep += [part for part in arg[4:].split(",") if part.startswith("-L")]
        elif not arg.startswith(EMCC_ONLY):
            keep.append(arg)
    # Rust's own mangled symbols are of no use to a Python extension.
    return keep, [name for name in exports if not name.startswith("_R")]


def main() -> int:
    args = sys.argv[1:]
    if args == ["-dumpversion"]:
        print(EMSCRIPTEN_VERSION)
        return 0
    linker = os.environ.get("WASM_LD") or shutil.which("wasm-ld-22") or shutil.which("wasm-ld")
    if linker is None:
        print("no wasm-ld: install lld (Debian: lld-22) or set WASM_LD", file=sys.stderr)
        return 1
    keep, exports = translate(args)
    strip = "--strip-debug" if os.environ.get("TORCHNATIVE_WASM_NAMES") else "--strip-all"
    command = [
        linker,
        "-shared",
        "--experimental-pic",
        "--no-entry",
        "--unresolved-symbols=import-dynamic",
        "--export-if-defined=__wasm_call_ctors",
        "--gc-sections",
        "-Bsymbolic",
        "--no-export-dynamic",
        strip,
        *(f"--export={name}" for name in exports),
        *keep,
    ]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr[:8000])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
