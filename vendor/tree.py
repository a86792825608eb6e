"""The vendored tree: upstream's Python files, unpacked from the pinned wheel and installed where they are imported.

    python vendor/tree.py unpack CACHE             unpack the tree into the cache; prints its folder
    python vendor/tree.py manifest CACHE           rewrite vendor/manifest.txt from the wheel (after moving the pin)
    python vendor/tree.py install CACHE SITE ...   install it with a built module into a site-packages folder

Nothing is patched. `install` adds the files that hold our own code: the extension module, an empty library and a script
in the places where upstream's start looks for its own.
"""

import argparse
import filecmp
import hashlib
import os
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

import distinfo
import manifest
from pins import Pin

#: Folders of the wheel that serve upstream's binary: headers, CMake files, libraries, helper programs.
NATIVE_FOLDERS = ("torch/include/", "torch/share/", "torch/lib/", "torch/bin/")
NATIVE_FILES = (".so", ".dylib", ".pyd", ".dll")


ROOT = Path(__file__).resolve().parents[1]


def ships(name):
    """Whether the wheel's file `name` belongs to the tree."""
    return not name.endswith("/") and not name.startswith(NATIVE_FOLDERS) and not name.endswith(NATIVE_FILES)


def members(wheel):
    """The tree's files in the wheel, as pairs of name and bytes."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ships(name):
                yield name, archive.read(name)


def tree_folder(cache, pin):
    """Where the tree is unpacked."""
    return Path(cache) / "vendor" / f"{pin.name}-{pin.version}"


def stamp():
    """What an unpacked or installed tree depends on, as one hash."""
    here = Path(__file__).resolve().parent
    sources = [manifest.FILE, here / "tree.py", here / "distinfo.py", here / "torch.toml"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def unpack(cache):
    """Unpacks the tree into the cache, checking each file against the manifest, and returns its folder."""
    pin = Pin.load("torch")
    folder = tree_folder(cache, pin)
    done = folder / ".complete"
    if done.exists() and done.read_text() == stamp():
        return folder
    wheel = pin.fetch(cache)
    print(f"» unpacking {pin.wheel}", file=sys.stderr, flush=True)
    expected = manifest.load()
    staging = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    for name, data in members(wheel):
        if expected.pop(name, None) != manifest.record_hash(data):
            raise SystemExit(f"{name} in {pin.wheel} is not the file that vendor/manifest.txt lists")
        path = staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if expected:
        raise SystemExit(f"{pin.wheel} lacks {len(expected)} files of vendor/manifest.txt, {min(expected)} first")
    (staging / ".complete").write_text(stamp())
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(staging, folder)
    return folder


def write_manifest(cache):
    """Writes the manifest of the pinned wheel."""
    pin = Pin.load("torch")
    hashes = {name: manifest.record_hash(data) for name, data in members(pin.fetch(cache))}
    manifest.FILE.write_text(manifest.dump(pin.wheel, pin.sha256, hashes))
    print(f"{manifest.FILE}: {len(hashes)} files", file=sys.stderr)


def native_files(module, global_deps):
    """Our own files in the tree: path to the file that goes there, or to its text."""
    package = ROOT / "python" / "torchnative"
    own = {f"torchnative/{path.name}": path for path in sorted(package.glob("*.py"))}
    return own | {
        "torch/_C.abi3.so": Path(module),
        f"torch/lib/lib{Path(global_deps).name.removeprefix('lib')}": Path(global_deps),
        "torch/bin/torch_shm_manager": distinfo.SHM_MANAGER,
    }


def place(target, source):
    """Puts `source`, a path or a text, at `target`. A running process keeps the file it has open."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    if isinstance(source, str):
        fresh.write_text(source)
        fresh.chmod(0o755)
    elif target.exists() and filecmp.cmp(source, target, shallow=False):
        return
    else:
        shutil.copy(source, fresh)
    os.replace(fresh, target)


def install(cache, site, module, global_deps):
    """Installs the tree and the built libraries into the folder `site`."""
    tree = unpack(cache)
    site = Path(site)
    info = site / next(tree.glob("torch-*.dist-info")).name
    done = info / "torchnative-tree"
    for name, text in distinfo.own(ROOT).items():
        place(site / name, text)
    if not (done.exists() and done.read_text() == stamp()):
        for old in [*site.glob("torch-*.dist-info"), *(site / name for name in ("torch", "torchgen", "functorch"))]:
            shutil.rmtree(old, ignore_errors=True)
        for name in ("torch", "torchgen", "functorch"):
            shutil.copytree(tree / name, site / name)
    ours = native_files(module, global_deps)
    for name, source in ours.items():
        place(site / name, source)
    if done.exists() and done.read_text() == stamp():
        return
    tag = f"cp313-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    contents = {**distinfo.files(tree, tag), f"{info.name}/torchnative-tree": stamp().encode()}
    entries = [distinfo.entry(name, data) for name, data in contents.items()]
    for name, value in manifest.load().items():
        if not name.startswith(info.name):
            entries.append((name, value, (site / name).stat().st_size))
    # The module changes with every build, so RECORD names our files without a hash, as the format allows.
    text = distinfo.record(f"{info.name}/RECORD", entries) + "".join(f"{name},,\n" for name in ours)
    contents[f"{info.name}/RECORD"] = text.encode()
    # The stamp is last: it stands for a finished installation.
    for name, data in sorted(contents.items(), key=lambda item: item[0].endswith("torchnative-tree")):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("unpack", "manifest", "install"):
        command = commands.add_parser(name)
        command.add_argument("cache")
        if name == "install":
            command.add_argument("site")
            command.add_argument("--module", required=True)
            command.add_argument("--global-deps", required=True)
    options = parser.parse_args()
    if options.command == "unpack":
        print(unpack(options.cache))
    elif options.command == "manifest":
        write_manifest(options.cache)
    else:
        install(options.cache, options.site, options.module, options.global_deps)


if __name__ == "__main__":
    main()
