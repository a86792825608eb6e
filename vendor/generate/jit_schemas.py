"""Writes what only a running upstream torch can tell about operators.

    python vendor/generate/jit_schemas.py

Run it with a Python that has upstream's torch of the pinned version installed, after `ops.py`. It asks the
compiled core alone, before `import torch` registers anything from Python.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import types
from pathlib import Path

from tree import ENGINE_TABLES, parse_arguments, write

TEST_DATA = Path("core/engine/src/schema/testdata")
# Operators of libraries and devices that a CPU build without them lacks as well.
KEPT_NAMESPACES = frozenset(
    ["aten", "prim", "quantized", "_quantized", "quantization", "sparse", "profiler", "inductor"]
)


def load_core():
    """`torch._C` without the Python package around it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("this Python has no torch installed")
    folder = Path(spec.origin).parent
    package = types.ModuleType("torch")
    package.__path__ = [str(folder)]
    package.__file__ = spec.origin
    sys.modules["torch"] = package
    ctypes.CDLL(str(folder / "lib" / "libtorch_global_deps.so"), mode=ctypes.RTLD_GLOBAL)
    from torch import _C

    return _C


def packet_and_overload(schema: str) -> tuple[str, str]:
    packet, _, overload = schema[: schema.index("(")].partition(".")
    return packet, overload or "default"


def outcome(core, text: str) -> str:
    """What upstream makes of a schema text: its printed form, or the message behind an exclamation mark."""
    try:
        return str(core.parse_schema(text))
    except (RuntimeError, ValueError, IndexError) as error:
        return "!" + str(error)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def unescape(text: str) -> str:
    plain = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), text)


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    core = load_core()
    rows = (arguments.output / ENGINE_TABLES / "ops.tsv").read_text(encoding="utf-8").splitlines()
    table = {}
    for row in rows:
        schema = "aten::" + row.split("\t")[0]
        table.setdefault(packet_and_overload(schema), schema)

    dispatched = set(core._dispatch_get_all_op_names())
    everything = [str(schema) for schema in core._jit_get_all_schemas()]
    extra, printed = [], []
    for schema in everything:
        packet, overload = key = packet_and_overload(schema)
        if key in table:
            if table[key] != schema:
                printed.append(schema)
            continue
        if packet.split("::")[0] not in KEPT_NAMESPACES:
            continue
        # Printing reverses a set of aliases, so the second printing is the spelling to read.
        written = outcome(core, schema) if "|" in schema else schema
        name = packet if overload == "default" else f"{packet}.{overload}"
        extra.append(f"{'d' if name in dispatched else 'j'} {written}")
    # One schema stands under a name several times when TorchScript registers it more than once.
    extra = list(dict.fromkeys(extra))

    table_order: dict[str, list[str]] = {}
    for packet, overload in table:
        table_order.setdefault(packet, []).append(overload)
    for line in extra:
        packet, overload = packet_and_overload(line[2:])
        known = table_order.setdefault(packet, [])
        if overload not in known:
            known.append(overload)
    orders = []
    for packet, known in table_order.items():
        _, overloads = core._jit_get_operation(packet)
        overloads = list(dict.fromkeys(name or "default" for name in overloads))
        if overloads != known:
            if sorted(overloads) != sorted(known):
                sys.exit(f"{packet}: upstream has {overloads}, the tables {known}")
            orders.append(" ".join([packet, *overloads]))

    write(arguments.output, ENGINE_TABLES / "extra_schemas.txt", "\n".join(extra) + "\n")
    write(arguments.output, ENGINE_TABLES / "overload_order.txt", "\n".join(orders) + "\n")
    write(arguments.output, TEST_DATA / "printed.txt", "\n".join(sorted(printed)) + "\n")

    cases = arguments.output / TEST_DATA / "cases.tsv"
    inputs = [line.split("\t")[0] for line in cases.read_text(encoding="utf-8").splitlines()]
    lines = [f"{text}\t{escape(outcome(core, unescape(text)))}" for text in inputs]
    write(arguments.output, TEST_DATA / "cases.tsv", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
