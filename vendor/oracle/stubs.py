"""Stand-ins for the CUDA libraries that upstream's Linux wheel is linked to.

    python vendor/oracle/stubs.py SITE_PACKAGES         needs cc, nm and readelf; safe to run again

The wheel's libraries name thirteen CUDA libraries (3 GB of packages), and the loader insists on each, down to the
versions of their symbols. On a CPU none of their functions is called but the registration ones that static
initialisers run. So one tiny library a name is compiled, with every symbol that is looked up there, each under the
version it is asked for. Results on the CPU are upstream's own: its code is untouched.
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

MARK = ".cuda_stubs"
RUNTIME = "libcudart.so.13"
SYSTEM = re.compile(
    r"^(libpthread|libm|libdl|librt|libc|libgcc_s|libstdc\+\+|ld-linux[^.]*|libgomp|libquadmath|libz|libcuda)\.so"
)
#: Symbols without a version that belong to CUDA by their name.
CUDA_NAME = re.compile(r"^(__cuda|cuda|cublas|cudnn|cusparse|cufft|cusolver|nccl|nvrtc|nvshmem|cupti|cuFile|nvJitLink)")

#: What is really called at load or by `torch.cuda.is_available()`: no device, and no error about it.
BODIES = {
    "__cudaRegisterFatBinary": "static void *h; void **__cudaRegisterFatBinary(void *p){return &h;}",
    "__cudaInitModule": "char __cudaInitModule(void **p){return 1;}",
    "cudaGetDeviceCount": "int cudaGetDeviceCount(int *n){*n=0;return 35;}",
    "cudaGetErrorString": 'const char *cudaGetErrorString(int e){return "no CUDA here";}',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int e){return "cudaErrorInsufficientDriver";}',
    "cudaGetLastError": "int cudaGetLastError(void){return 0;}",
    "cudaPeekAtLastError": "int cudaPeekAtLastError(void){return 0;}",
    "cudaDriverGetVersion": "int cudaDriverGetVersion(int *v){*v=0;return 0;}",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *v){*v=0;return 0;}",
}
for name in ("RegisterFatBinaryEnd", "UnregisterFatBinary", "RegisterFunction", "RegisterVar", "RegisterManagedVar"):
    BODIES[f"__cuda{name}"] = f"void __cuda{name}(void){{}}"


def output(*command):
    """What a program prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed_versions(library):
    """Pairs of library name and symbol version that `library` asks for."""
    inside, owner = False, None
    for line in output("readelf", "-VW", library).splitlines():
        if line.startswith("Version"):
            inside = line.startswith("Version needs section")
        if not inside:
            continue
        if found := re.search(r"File: (\S+)", line):
            owner = found[1]
        if (found := re.search(r"Name: (\S+)", line)) and owner:
            yield owner, found[1]


def scan(folder):
    """What the libraries in `folder` need: names, the versions of each name, and undefined symbols with theirs."""
    present = {path.name for path in folder.iterdir() if re.search(r"\.so(\.\d+)*$", path.name)}
    needed, versions, undefined, defined = set(), defaultdict(set), {}, set()
    for library in (folder / name for name in sorted(present)):
        for name in re.findall(r"NEEDED\).*\[(.*?)\]", output("readelf", "-dW", library)):
            if name not in present and not SYSTEM.match(name):
                needed.add(name)
        for owner, version in needed_versions(library):
            versions[owner].add(version)
        for line in output("nm", "-D", library).splitlines():
            if not (found := re.match(r"^(?:[0-9a-f]+)?\s+(\w)\s+(\S+)$", line)):
                continue
            symbol, _, version = found[2].partition("@")
            if found[1] in "Uw":
                undefined.setdefault(symbol, version.strip("@"))
            else:
                defined.add(symbol)
    return needed, versions, {name: version for name, version in undefined.items() if name not in defined}


def assign(needed, versions, undefined):
    """For each needed library, the symbols it must hold, by version."""
    owners = {version: name for name in needed for version in versions[name]}
    libraries = {name: defaultdict(list) for name in needed}
    for symbol, version in sorted(undefined.items()):
        if version in owners:
            libraries[owners[version]][version].append(symbol)
        elif not version and CUDA_NAME.match(symbol) and RUNTIME in libraries:
            libraries[RUNTIME][""].append(symbol)
    return libraries


def build(folder, name, groups, versions):
    """Compiles the stand-in `name`."""
    symbols = [symbol for group in groups.values() for symbol in group]
    # 100 is cudaErrorNoDevice.
    code = [BODIES.get(symbol, f"int {symbol}(void){{return 100;}}") for symbol in symbols] or ["int _empty;"]
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text("\n".join(code) + "\n")
        command = ["cc", "-shared", "-fPIC", "-w", "-O1", source, "-o", folder / name, f"-Wl,-soname,{name}"]
        if versions:
            nodes = []
            for at, version in enumerate(sorted(versions)):
                names = groups.get(version, []) + (groups.get("", []) if at == 0 else [])
                nodes.append(f"{version} {{ global: {' '.join(f'{symbol};' for symbol in names)} }};\n")
            script.write_text("".join(nodes))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main(site):
    """Replaces the stand-ins below `site`."""
    folder = Path(site) / "torch" / "lib"
    mark = folder / MARK
    if mark.exists():
        for name in mark.read_text().split():
            (folder / name).unlink(missing_ok=True)
    needed, versions, undefined = scan(folder)
    libraries = assign(needed, versions, undefined)
    for name in sorted(needed):
        build(folder, name, libraries[name], versions[name])
    mark.write_text("\n".join(sorted(needed)))
    print(f"{len(needed)} libraries: {', '.join(sorted(needed))}")


if __name__ == "__main__":
    main(sys.argv[1])
