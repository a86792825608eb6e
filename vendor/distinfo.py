"""torch's distribution metadata as we install it.

The tree keeps upstream's dist-info as it came. What is installed differs from it in three files, because they describe
the binary and not the source: METADATA no longer asks for the CUDA packages that upstream's Linux binary is linked to,
WHEEL names this build, and RECORD lists the files that are really there.
"""

import re
import tomllib
from pathlib import Path

import manifest

#: Requirements that upstream's binary has on Linux and this one has not.
CUDA = re.compile(r"^Requires-Dist:.*platform_system *== *\"Linux\"")

#: What runs where upstream has its shared-memory daemon: `import torch` refuses to start without the file.
SHM_MANAGER = """\
#!/bin/sh
echo 'torchnative shares tensors without a manager process; this program is never started.' >&2
exit 1
"""


#: How torch finds the device at the end of its import: upstream's own mechanism for devices outside its tree.
ENTRY_POINTS = "[torch.backends]\ntorchnative_webgpu = torchnative.webgpu:_autoload\n"


def own(root):
    """The dist-info of `torchnative` in a tree that no installer made, as a mapping of path to text."""
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    folder = f"torchnative-{version}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.4\nName: torchnative\nVersion: {version}\n",
        f"{folder}/entry_points.txt": ENTRY_POINTS,
    }


def metadata(text):
    """Upstream's METADATA without the requirements of upstream's Linux binary."""
    return "".join(line for line in text.splitlines(keepends=True) if not CUDA.match(line))


def wheel_file(tag):
    """The WHEEL file of a binary with the compatibility tag `tag`."""
    return f"Wheel-Version: 1.0\nGenerator: torchnative\nRoot-Is-Purelib: false\nTag: {tag}\n"


def files(tree, tag):
    """The files of the installed dist-info but RECORD, as a mapping of path to bytes."""
    folder = next(Path(tree).glob("torch-*.dist-info"))
    contents = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name == "RECORD":
            continue
        data = path.read_bytes()
        if name == "METADATA":
            data = metadata(data.decode()).encode()
        elif name == "WHEEL":
            data = wheel_file(tag).encode()
        contents[f"{folder.name}/{name}"] = data
    contents[f"{folder.name}/INSTALLER"] = b"torchnative\n"
    return contents


def record(name, entries):
    """The text of the RECORD at path `name` over `entries`, tuples of path, RECORD hash and size."""
    lines = [f"{path},sha256={value},{size}" for path, value, size in sorted(entries)]
    return "\n".join([*lines, f"{name},,"]) + "\n"


def entry(path, data):
    """The RECORD entry of the file `path` with the contents `data`."""
    return path, manifest.record_hash(data), len(data)
