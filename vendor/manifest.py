"""The list of every file of the vendored tree with its hash, committed as `vendor/manifest.txt`.

The file names a folder and then, indented, each of its files after its sha256 in the spelling that a wheel's RECORD
uses. Two lines above the first folder name the wheel.
"""

import base64
import hashlib
from pathlib import Path

FILE = Path(__file__).resolve().parent / "manifest.txt"


def record_hash(data):
    """The sha256 of `data` as RECORD spells it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def dump(wheel, sha256, hashes):
    """The manifest's text for `hashes`, a mapping of path to hash."""
    lines = [f"# {wheel}", f"# sha256 {sha256}"]
    folder = None
    for path in sorted(hashes, key=lambda path: path.rpartition("/")[::2]):
        parent, _, name = path.rpartition("/")
        if parent != folder:
            folder = parent
            lines.append(parent)
        lines.append(f" {hashes[path]} {name}")
    return "\n".join(lines) + "\n"


def load(text=None):
    """The committed manifest (or `text`) as a mapping of path to hash."""
    hashes = {}
    folder = None
    for line in (FILE.read_text() if text is None else text).splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            folder = line
            continue
        value, name = line[1:].split(" ", 1)
        hashes[f"{folder}/{name}"] = value
    return hashes
