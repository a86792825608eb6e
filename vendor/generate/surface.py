"""Writes core/torch_c/src/generated/surface.tsv: every name of upstream's `torch._C`.

The table is what a running upstream says about itself, minus what a build without CUDA,
XPU, NCCL, c10d and ITT lacks. It says for each name whether it is a function, a class
(with its members), an enum (with its values), a constant or a submodule; the extension
binds the names it implements and refuses the others by name.

    python vendor/generate/surface.py [--check]

Run it with an interpreter in which `import torch` is upstream's pinned release.
"""

import argparse
import pathlib
import re
import sys
import types

OUTPUT = pathlib.Path(__file__).parents[2] / "core/torch_c/src/generated/surface.tsv"

HEADER = """\
# Names of torch._C, torch {version}. Written by vendor/generate/surface.py; do not edit.
# M module | F module name | V module name type value | E module name __module__ export|scoped member=value,... |
# R name field,...
# C module name __module__ __qualname__ base metaclass members, where m:method s:static p:property
"""

# Modules that exist only where their hardware, tool or transport was compiled in.
ABSENT_MODULES = (
    "torch._C._cudart",
    "torch._C._cudnn",
    "torch._C._cusparselt",
    "torch._C._nvtx",
    "torch._C._itt",
    "torch._C._profiler._cuspy",
    "torch._C._distributed_c10d",
    "torch._C._distributed_rpc",
    "torch._C._distributed_autograd",
)

ABSENT_NAMES = re.compile(
    r"_cuda_(?!(get|set)_cudnn_benchmark_limit$)|_nccl_|_xpu_|_Cuda|_CUDA|_Xpu|_XPU|_MPSStreamBase$|_StaticCuda|_FastCuda"
    r"|_MemPool$|_graph_pool_handle$|_construct_CUDA_|_cudnn_|_ensureCUDADeviceGuardSet$|_cudart$|_cudnn$|_cusparselt$"
    r"|_(broadcast|broadcast_coalesced|broadcast_out|gather|gather_out|scatter|scatter_out)$|_gds_|_host_emptyCache$|_CU[a-z]"
    r"|_itt$|_nvtx$|_cuspy$|_activate_gpu_trace$|AOTIModelContainerRunnerCuda$"
    r"|(_c10d|_rpc|_dist_autograd|_faulty_agent)_init$|_distributed_(c10d|rpc|autograd)$"
)

# Capabilities of a build; the extension states its own.
CAPABILITIES = re.compile(r"_?has_")

# Written by the extension from the engine's own tables.
OWNED_MODULES = ("torch._C._VariableFunctions",)

SKIPPED_MEMBERS = {
    "__init__",
    "__new__",
    "__doc__",
    "__module__",
    "__dict__",
    "__weakref__",
    "__qualname__",
    "__members__",
    "__entries",
    "__eq__",
    "__ne__",
    "__hash__",
    "__repr__",
    "__str__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "_pybind11_conduit_v1_",
}


def is_python_made(value):
    """Whether the Python tree, not the extension, put this class here (dummy bases of absent devices)."""
    return isinstance(value, type) and any(
        isinstance(vars(value).get(name), types.FunctionType) for name in ("__init__", "__new__")
    )


def members(cls):
    found = []
    for name, value in sorted(vars(cls).items()):
        if name in SKIPPED_MEMBERS:
            continue
        kind = type(value).__name__
        if isinstance(value, types.FunctionType):
            continue
        if kind in ("staticmethod", "builtin_function_or_method", "pybind11_static_property"):
            found.append(f"s:{name}")
        elif kind in ("property", "getset_descriptor", "member_descriptor"):
            found.append(f"p:{name}")
        elif callable(value) or kind in ("instancemethod", "method_descriptor", "wrapper_descriptor"):
            found.append(f"m:{name}")
    return ",".join(found)


def base_of(cls):
    """The base class, where it is itself a name of the table or a builtin."""
    base = cls.__bases__[0]
    if base.__module__ == "pybind11_builtins":
        return "object"
    return base.__qualname__


def metaclass_of(cls):
    return "bound" if type(cls).__name__ == "pybind11_type" else "type"


def order(classes):
    """Bases before the classes that derive from them."""
    done, rows = set(), []

    def visit(cls):
        if cls in done:
            return
        done.add(cls)
        for base in cls.__bases__:
            if base in classes:
                visit(base)
        rows.append(cls)

    for cls in classes:
        visit(cls)
    return rows


def rows_of(name, module):
    functions, values, enums, classes, modules = [], [], [], {}, []
    for attribute, value in sorted(vars(module).items()):
        if attribute.startswith("__") or ABSENT_NAMES.match(attribute) or is_python_made(value):
            continue
        if isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type):
            if value in classes:
                continue
            entries = getattr(value, "__members__", None)
            if entries is not None:
                pairs = ",".join(f"{key}={int(entry.value)}" for key, entry in entries.items())
                exported = all(getattr(module, key, None) == entry for key, entry in entries.items())
                export = "export" if exported else "scoped"
                enums.append(f"E\t{name}\t{attribute}\t{value.__module__}\t{export}\t{pairs}")
            else:
                classes[value] = attribute
        elif isinstance(value, types.BuiltinFunctionType):
            functions.append(f"F\t{name}\t{attribute}")
        elif type(value) in (bool, int, float, str):
            if CAPABILITIES.match(attribute) or attribute.startswith("_torchinductor_"):
                continue
            text = repr(value) if not isinstance(value, str) else value
            values.append(f"V\t{name}\t{attribute}\t{type(value).__name__}\t{text}")
    class_rows = [
        f"C\t{name}\t{classes[cls]}\t{cls.__module__}\t{cls.__qualname__}\t{base_of(cls)}\t{metaclass_of(cls)}\t"
        f"{'' if name == 'torch._C._functions' else members(cls)}"
        for cls in order(classes)
    ]
    return [f"M\t{name}", *modules, *values, *enums, *class_rows, *functions]


def table():
    import torch
    import torch._dynamo

    loaded = {name: module for name, module in sys.modules.items() if re.match(r"torch\._C(\.|$)", name) and module}
    loaded["torch._C._functions"] = torch._C._functions
    rows = []
    for name in sorted(loaded):
        if name == "torch._C._return_types":
            rows.append(f"M\t{name}")
            rows += [
                f"R\t{kind}\t{','.join(cls.__match_args__)}"
                for kind, cls in sorted(vars(loaded[name]).items())
                if isinstance(cls, type)
            ]
            continue
        if name in ABSENT_MODULES or name in OWNED_MODULES:
            continue
        rows += rows_of(name, loaded[name])
    return HEADER.format(version=torch.__version__.split("+")[0]) + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed table instead of writing it")
    arguments = parser.parse_args()
    text = table()
    if not arguments.check:
        OUTPUT.write_text(text, encoding="utf-8")
        return
    if OUTPUT.read_text(encoding="utf-8") != text:
        sys.exit(f"{OUTPUT} is stale: run {sys.argv[0]} again")


if __name__ == "__main__":
    main()
