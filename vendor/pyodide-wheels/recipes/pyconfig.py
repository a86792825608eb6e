#!/usr/bin/env python3
"""pyconfig.py PYODIDE_DIR OUT_DIR SYSTEM_INCLUDE: makes a header folder for Emscripten's CPython.

The headers are CPython's own, copied from SYSTEM_INCLUDE (Debian's python3.14-dev, say). `pyconfig.h` describes the
platform: it is written anew from the `_sysconfigdata` module inside Pyodide's python_stdlib.zip.
"""

import re
import shutil
import sys
import zipfile
from pathlib import Path

# The macros of pyconfig.h, by prefix, among the make variables that sysconfig keeps beside them.
MACROS = """HAVE_ SIZEOF_ ALIGNOF_ WITH_ _PYTHREAD Py_ PY_ STDC_ TIMEMODULE USE_ MVWDELCH DOUBLE_IS FLOAT_ RETSIGTYPE
SETPGRP TANH PTHREAD_ GETPGRP MAJOR_ SYS_SELECT ANDROID_API AC_APPLE X87 WORDS_BIG ENABLE_IPV6 MALLOC_ VA_LIST AUTO_
POSIX_ THREAD_STACK DEFAULT_PICKLE""".split()
MAKE = """WITH_DECIMAL
PY_CFLAGS PY_CPPFLAGS PY_LDFLAGS PY_CORE_CFLAGS PY_CFLAGS_NODIST PY_CORE_LDFLAGS PY_LDFLAGS_NODIST
PY_LDFLAGS_NOLTO PY_STDMODULE_CFLAGS PY_BUILTIN_MODULE_CFLAGS PY_ENABLE_SHARED PY_BUILTIN_HASHLIB_HASHES_LIST""".split()
TEXTS = ("PY_BUILTIN_HASHLIB_HASHES", "PLATLIBDIR", "RETSIGTYPE")
# sysconfig loses the macros that begin with an underscore: it looks for a capital first.
LOST = {
    "_GNU_SOURCE": "1",
    "_ALL_SOURCE": "1",
    "__EXTENSIONS__": "1",
    "_POSIX_C_SOURCE": "200809L",
    "_XOPEN_SOURCE": "700",
    "_XOPEN_SOURCE_EXTENDED": "1",
    "_LARGEFILE_SOURCE": "1",
    "__BSD_VISIBLE": "1",
}


def variables(pyodide: Path) -> dict[str, object]:
    """The build variables that Pyodide's sysconfig knows."""
    with zipfile.ZipFile(pyodide / "python_stdlib.zip") as archive:
        name = next(n for n in archive.namelist() if Path(n).name.startswith("_sysconfigdata_"))
        if name.endswith(".pyc"):
            sys.exit(f"{name} is compiled: run this with that CPython")
        namespace: dict[str, dict[str, object]] = {}
        exec(archive.read(name).decode(), namespace)
    return namespace["build_time_vars"]


def define(name: str, value: object) -> str | None:
    """The line for one variable, if it is a macro."""
    if not name.startswith(tuple(MACROS)) or name in MAKE:
        return None
    if isinstance(value, int):
        if value == 0 and not name.startswith(("SIZEOF_", "ALIGNOF_")):
            return f"/* #undef {name} */"
        return f"#ifndef {name}\n#define {name} {value}\n#endif"
    if name in TEXTS and isinstance(value, str) and re.fullmatch(r'"[^"]*"|[A-Za-z_0-9 ]+', value):
        return f"#define {name} {value}"
    return None


def main() -> None:
    pyodide, out, system = map(Path, sys.argv[1:])
    shutil.copytree(system, out, dirs_exist_ok=True)
    for old in out.rglob("pyconfig.h"):
        old.unlink()
    found = [define(name, value) for name, value in sorted(variables(pyodide).items())]
    lines = [line for line in found if line is not None]
    lines += [f"#ifndef {name}\n#define {name} {value}\n#endif" for name, value in LOST.items()]
    text = "\n".join(["#ifndef Py_PYCONFIG_H", "#define Py_PYCONFIG_H", *lines, "#endif", ""])
    (out / "pyconfig.h").write_text(text)


if __name__ == "__main__":
    main()
