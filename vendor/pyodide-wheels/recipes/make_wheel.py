#!/usr/bin/env python3
"""Packs files into a wheel, given the core metadata of an sdist (its PKG-INFO).

    make_wheel.py --pkginfo FILE --tag PY-ABI-PLATFORM --out DIR [--license FILE]... SOURCE=TARGET...

SOURCE is a file or a folder. The same input gives the same bytes: timestamps are fixed and names sorted.
"""

import argparse
import base64
import email.parser
import hashlib
import os
import re
import zipfile
from pathlib import Path

DATE = (2026, 1, 1, 0, 0, 0)


def collect(pairs: list[str], exclude: list[str]) -> dict[str, Path]:
    """Every file, by its name in the wheel."""
    found = {}
    for pair in pairs:
        source, target = pair.split("=", 1)
        if not os.path.isdir(source):
            found[target] = Path(source)
            continue
        for path in Path(source).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found[os.path.normpath(os.path.join(target, path.relative_to(source)))] = path
    return {name: path for name, path in found.items() if not any(re.search(pattern, name) for pattern in exclude)}


def write(out: Path, entries: dict[str, bytes], record: str) -> None:
    """Writes the archive with its RECORD last, as the wheel format asks."""
    lines = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name: str, data: bytes) -> None:
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)

        for name, data in entries.items():
            add(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
        add(record, "".join([*lines, f"{record},,\n"]).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pkginfo", required=True, type=Path)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--license", action="append", default=[], type=Path)
    parser.add_argument("--entry-points", type=Path)
    parser.add_argument("--exclude", action="append", default=[], help="pattern of names to leave out")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    metadata = args.pkginfo.read_text(encoding="utf-8")
    fields = email.parser.HeaderParser().parsestr(metadata)
    name, version = re.sub(r"[-_.]+", "_", fields["Name"]).lower(), fields["Version"]
    info = f"{name}-{version}.dist-info"
    pure = "true" if args.tag.endswith("-none-any") else "false"
    files = collect(args.files, args.exclude)
    entries = {key: files[key].read_bytes() for key in sorted(files)}
    entries[f"{info}/METADATA"] = metadata.encode()
    entries[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: {pure}\nTag: {args.tag}\n".encode()
    )
    if args.entry_points:
        entries[f"{info}/entry_points.txt"] = args.entry_points.read_bytes()
    for path in args.license:
        entries[f"{info}/licenses/{path.name}"] = path.read_bytes()
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out / f"{name}-{version}-{args.tag}.whl"
    write(out, entries, f"{info}/RECORD")
    print(out, out.stat().st_size)


if __name__ == "__main__":
    main()
