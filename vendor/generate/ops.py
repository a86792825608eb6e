"""Writes the operator table: every aten overload of the pinned tree, and its numeric ids.

    python vendor/generate/ops.py [--tree TREE]

The columns are described in README.md beside this file.
"""

from __future__ import annotations

import sys

from tree import ENGINE_TABLES, in_table_order, load_native, parse_arguments, use_tree, write

# Strict and reserved words of the edition the engine is written in.
RUST_KEYWORDS = """
abstract as async await become box break const continue crate do dyn else enum extern false final fn for
gen if impl in let loop macro match mod move mut override priv pub ref return self Self static struct super
trait true try type typeof union unsafe unsized use virtual where while yield
"""
# Almost every operator carries it, so the table names the exceptions instead.
COMMON_TAG = "pt2_compliant_tag"


def kernel_letter(f, group, cpu) -> str:
    """How a call reaches a kernel on the CPU."""
    delegates_to_cpu = f.structured_delegate is not None and any(
        member.structured and cpu.has_kernel(member) for member in group.values()
    )
    if cpu.has_kernel(f) or delegates_to_cpu:
        return "C"
    if f.has_composite_implicit_autograd_kernel:
        return "I"
    if f.has_composite_explicit_autograd_kernel:
        return "E"
    # A structured operator without a kernel for a backend gets one that goes through its `out` overload.
    if f.has_composite_explicit_autograd_non_functional_kernel or f.structured_delegate is not None:
        return "N"
    return "-"


def flag_letters(f) -> str:
    from torchgen.model import Variant

    letters = {
        "f": Variant.function in f.variants,
        "m": Variant.method in f.variants,
        "v": f.is_view_op,
        "s": f.structured,
        "d": f.structured_delegate is not None,
        "i": f.structured_inherits is not None,
        "b": f.manual_cpp_binding,
        "k": f.manual_kernel_registration,
        "g": "generated" in f.tags,
        "p": COMMON_TAG not in f.tags,
    }
    return "".join(letter for letter, present in letters.items() if present) or "-"


def rust_name(name: str) -> str:
    word = name.replace(".", "_")
    if word in ("self", "Self", "super", "crate"):
        sys.exit(f"{name} has no spelling as a Rust constant")
    return f"r#{word}" if word in RUST_KEYWORDS.split() else word


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    packaged = use_tree(arguments.tree)
    from torchgen.gen import pre_group_native_functions
    from torchgen.model import DispatchKey, SchemaKind

    parsed = load_native(packaged)
    cpu = parsed.backend_indices[DispatchKey.CPU]
    groups = {}
    for group in pre_group_native_functions(parsed.native_functions).values():
        for member in group.values():
            groups[member.func.name] = group

    kinds = {
        SchemaKind.functional: "f",
        SchemaKind.inplace: "i",
        SchemaKind.out: "o",
        SchemaKind.mutable: "m",
        SchemaKind.scratch: "s",
    }
    linked = (SchemaKind.functional, SchemaKind.inplace, SchemaKind.out)
    rows, ids, seen = [], [], {}
    for index, f in enumerate(in_table_order(parsed.native_functions)):
        group = groups[f.func.name]
        links = [str(group[kind].func.name) if kind in group and group[kind] is not f else "-" for kind in linked]
        tags = sorted(f.tags - {"generated", COMMON_TAG})
        rows.append(
            "\t".join(
                [
                    str(f.func),
                    kernel_letter(f, group, cpu),
                    kinds[f.func.kind()],
                    flag_letters(f),
                    *links,
                    ",".join(tags) or "-",
                ]
            )
        )
        name = str(f.func.name)
        constant = rust_name(name)
        if constant in seen:
            sys.exit(f"{name} and {seen[constant]} are both spelled {constant}")
        seen[constant] = name
        ids.append(f"pub const {constant}: OpId = OpId({index});\n")

    header = (
        "//! Operator ids, one for each row of `ops.tsv`.\n"
        "//! Written by `python vendor/generate/ops.py`; do not edit.\n"
        "#![allow(non_upper_case_globals, missing_docs)]\n\n"
        "use crate::schema::OpId;\n\n"
        "/// How many operators the table holds.\n"
        f"pub const COUNT: usize = {len(ids)};\n\n"
    )
    write(arguments.output, ENGINE_TABLES / "ops.tsv", "\n".join(rows) + "\n")
    write(arguments.output, ENGINE_TABLES / "op_ids.rs", header + "".join(ids))


if __name__ == "__main__":
    main()
