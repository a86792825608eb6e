"""Writes the table of derivatives: for each overload its graph node, what the node saves, and its formulas.

    python vendor/generate/derivatives.py [--tree TREE]

The columns are described in README.md beside this file. Formulas are those of the tree's derivatives.yaml as its own
`torchgen` reads them, spelled in the small expression language of the engine's `autograd/formula`.
"""

from __future__ import annotations

import re
import sys

from tree import ENGINE_TABLES, parse_arguments, use_tree, write

# C++ spellings without a meaning of their own in an expression.
PLAIN = (
    (r"/\*.*?\*/", ""),
    (r"std::optional<[\w:]+>\(((?:\w|::)+(?:\.?\w*\(\w*\))*(?:\.\w+\(\d*\))?)\)", r"\1"),
    (r"std::optional<[\w:]+>\(\)", "undefined"),
    (r":*std::nullopt", "undefined"),
    (r"std::tuple<[\w:, ]*>\(\)", "undefined"),
    (r"std::vector<Tensor>\(([^()]+(?:\(\))?), Tensor\(\)\)", r"undefined_list(\1)"),
    (r"std::vector<[\w:]+>\(([^()]+\(\)), (\d+)\)", r"filled(\1, \2)"),
    (r"std::vector<Tensor>\((\w+\.size\(\))\)", r"undefined_list(\1)"),
    (r"\bTensor\(\)", "undefined"),
    (r"std::get<(\d+)>\((at::_unique\([^()]*\))\)", r"\2[\1]"),
    (r"fmap\(reverse_list_symint\((\w+)\), \[\]\(c10::SymInt i\)\{return -i;\}\)", r"negated(reverse_list(\1))"),
    (r"\{\{([\d, ]+)\}\}", r"{\1}"),
    (r"at::OptionalArrayRef<c10::SymInt>\((.*)\)$", r"\1"),
    (r"c10::optional_sym_sizes", "optional_sym_sizes"),
    (r"at::sparse_csr::", ""),
    (r"\bat::", ""),
    (r"\bc10::", ""),
    (r"GradMode::is_enabled\(\)", "grad_mode()"),
    (r"(\w)_symint\(", r"\1("),
    (r"->", "."),
    (r"(\d)f\b", r"\1"),
    (r"\s+", " "),
)


def plain(text: str) -> str:
    """A C++ expression in the engine's language."""
    for pattern, replacement in PLAIN:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def saved_name(attribute) -> str:
    name = attribute.nctype.name
    return name if isinstance(name, str) else name.name


def saved_source(attribute) -> str:
    """What is kept of an argument or a result: `self`, or a property such as `self.scalar_type()`."""
    expression = plain(attribute.expr)
    if "TypeAndSize" in str(attribute.nctype.type):
        return f"info({expression})"
    if match := re.fullmatch(r"(\w+)\.has_value\(\) \? .*sym_sizes\(\)\)? : undefined", expression):
        return f"optional_sizes({match[1]})"
    if match := re.fullmatch(r'strides_or_error\((\w+), "\w+"\)', expression):
        return f"strides_or_error({match[1]})"
    return expression


def row(function, info) -> str | None:
    """One line of the table."""
    names = {argument.name for argument in function.func.arguments.flat_non_out}
    # The in-place lists of a few `_foreach` operators name arguments of the operator on single tensors.
    if not info.derivatives or not names.issuperset(argument.name for argument in info.args_with_derivatives):
        return None
    saved: dict[str, str] = {}
    formulas = []
    for derivative in info.derivatives:
        used = []
        for outputs, attributes in ((False, derivative.saved_inputs), (True, derivative.saved_outputs)):
            for attribute in attributes:
                name = saved_name(attribute)
                saved[name] = ("^" if outputs else "") + saved_source(attribute)
                used.append(name)
        names = ",".join(derivative.var_names)
        formulas.append(f"{names}|{','.join(used)}|{plain(derivative.formula)}")
    differentiable = "-"
    if info.output_differentiability:
        differentiable = "".join("1" if on else "0" for on in info.output_differentiability)
    elif len(function.func.returns) > 1 and any(re.search(r"\bgrad\b", d.formula) for d in info.derivatives):
        # Formulas that speak of `grad` alone are those of the first result.
        differentiable = "1" + "0" * (len(function.func.returns) - 1)
    keep = ";".join(f"{name}={source}" for name, source in saved.items()) or "-"
    inputs = ",".join(argument.name for argument in info.args_with_derivatives) or "-"
    grads = ",".join(info.available_named_gradients) or "-"
    return "\t".join([str(function.func.name), info.op or "-", differentiable, inputs, grads, keep, *formulas])


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    packaged = use_tree(arguments.tree)
    from torchgen.api.autograd import match_differentiability_info
    from torchgen.gen import parse_native_yaml
    from torchgen.packaged.autograd.gen_variable_type import DONT_REQUIRE_DERIVATIVE
    from torchgen.packaged.autograd.load_derivatives import load_derivatives

    native, tags = (str(packaged / "ATen" / "native" / name) for name in ("native_functions.yaml", "tags.yaml"))
    infos, _ = load_derivatives(str(packaged / "autograd" / "derivatives.yaml"), native, tags)
    functions = parse_native_yaml(native, tags).native_functions
    lines = []
    for matched in match_differentiability_info(functions, infos):
        info = (matched.info or {}).get("Default")
        name = str(matched.func.func.name)
        if info is not None and (line := row(matched.func, info)):
            lines.append(line)
        elif info is not None or matched.func.func.name.name.base in DONT_REQUIRE_DERIVATIVE:
            lines.append(f"{name}\t-")
    unread = [line for line in lines if re.search(r"::|<\w+>|\bauto\b|;\s", line.split("\t", 6)[-1])]
    if unread:
        sys.exit("formulas with C++ that is not understood:\n" + "\n".join(unread))
    write(arguments.output, ENGINE_TABLES / "derivatives.tsv", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
