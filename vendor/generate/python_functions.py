"""Writes the tables of Python signatures: what each function and method of `torch` accepts and calls.

    python vendor/generate/python_functions.py [--tree TREE]

The columns are described in README.md beside this file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

from tree import PYTHON_TABLES, load_native, parse_arguments, use_tree, write

# In a factory, a device left out is that of the default tensor type rather than none.
DEFAULT_DEVICE = "torch::tensors::get_default_device()"


def namespaces(generator) -> list:
    """Name, predicate and whether its functions are methods, for every module upstream binds."""
    return [
        ("Tensor", generator.is_py_variable_method, True),
        ("torch", generator.is_py_torch_function, False),
        ("nn", generator.is_py_nn_function, False),
        ("linalg", generator.is_py_linalg_function, False),
        ("fft", generator.is_py_fft_function, False),
        ("special", generator.is_py_special_function, False),
        ("sparse", generator.is_py_sparse_function, False),
        ("nested", generator.is_py_nested_function, False),
    ]


def parameter_sources(signature) -> dict[str, str]:
    """Where the value of each name comes from: a parameter, or an element of the packed `out`."""
    from torchgen.api.python import PythonOutArgument

    sources = {}
    for index, parameter in enumerate(signature.arguments()):
        if isinstance(parameter, PythonOutArgument) and len(parameter.outputs) > 1:
            for element, output in enumerate(parameter.outputs):
                sources[output.name] = f"{index}.{element}"
        else:
            sources[parameter.name] = str(index)
    if signature.method:
        sources["self"] = "s"
    return sources


def option_sources(signature) -> dict[str, str]:
    """As above for the tensor options, with the value that stands for one left out."""
    sources = {}
    for index, parameter in enumerate(signature.arguments()):
        if parameter in signature.tensor_options_args:
            default = parameter.default_init
            if default == DEFAULT_DEVICE:
                sources[parameter.name] = f"{index}:default_device"
            elif default is not None:
                sources[parameter.name] = f"{index}:{default.removeprefix('at::k').lower()}"
            else:
                sources[parameter.name] = str(index)
    return sources


def named_sources(signature, function) -> dict[str, str]:
    """A signature of today names its parameters as the operator does."""
    del function
    return parameter_sources(signature)


def deprecated_sources(signature, function) -> dict[str, str]:
    """A deprecated signature names the operands in the order of the operator's C++ call."""
    arguments = function.func.arguments
    passed = list(signature.deprecated_args_exprs)
    takes_out = "out" in passed
    if function.func.is_out_fn():
        order = [*arguments.out, *arguments.flat_non_out]
    else:
        order = list(arguments.flat_non_out)
        passed = [name for name in passed if name != "out"]
    assert takes_out or not function.func.is_out_fn()
    known = parameter_sources(signature)
    sources = {}
    # Trailing operands left out of the call take the operator's defaults.
    for argument, name in zip(order, passed, strict=False):
        sources[argument.name] = known.get(name, f"={name}")
    return sources


def mapping(signature, function) -> str:
    """One word for each argument of the operator, in the order of its schema."""
    read = deprecated_sources if signature.deprecated else named_sources
    sources = read(signature, function)
    if not function.func.is_out_fn():
        sources |= option_sources(signature)
    words = []
    for argument in function.func.schema_order_arguments():
        if argument.name in sources:
            words.append(sources[argument.name])
        elif argument.default is not None:
            words.append("_")
        else:
            sys.exit(f"{function.func.name}: nothing supplies {argument.name}")
    return ",".join(words) or "-"


def return_type(function) -> str:
    from torchgen.api import cpp
    from torchgen.api.python import structseq_fieldnames

    return cpp.name(function.func) if structseq_fieldnames(function.func.returns) else "-"


def signature_row(namespace: str, group, no_arguments: bool) -> str:
    from torchgen.model import SchemaKind

    signature, base, out = group.signature, group.base, group.outplace
    flags = {
        "d": signature.deprecated,
        "n": no_arguments,
        "r": base.func.name.name.dunder_method,
        # The binding, not the operator, returns the list it was given.
        "l": str(base.func.name).startswith("_foreach_") and base.func.kind() == SchemaKind.inplace,
        "g": bool(signature.tensor_options_args),
    }
    columns = [
        namespace,
        signature.signature_str(symint=True),
        "".join(letter for letter, present in flags.items() if present) or "-",
        str(base.func.name),
        mapping(signature, base),
        return_type(base),
        str(out.func.name) if out else "-",
        mapping(signature, out) if out else "-",
        return_type(out) if out else "-",
    ]
    return "\t".join(columns)


def generated_bindings(packaged: Path) -> tuple[list[str], dict[str, set[str]], dict[str, list[str]]]:
    """The rows, the names bound in each namespace, and the fields of every structured return type."""
    from torchgen.api import cpp
    from torchgen.api.python import structseq_fieldnames
    from torchgen.packaged.autograd import gen_python_functions as generator

    parsed = load_native(packaged)
    bound = [f for f in parsed.native_functions if generator.should_generate_py_binding(f)]
    deprecated = str(packaged / "autograd" / "deprecated.yaml")
    pairs = {method: generator.load_signatures(bound, deprecated, method=method) for method in (True, False)}
    rows, names, return_types = [], defaultdict(set), {}
    for namespace, predicate, method in namespaces(generator):
        grouped = generator.group_filter_overloads(pairs[method], predicate)
        for name in sorted(grouped, key=str):
            names[namespace].add(str(name))
            no_arguments = generator.is_noarg(grouped[name])
            for group in generator.group_overloads(grouped[name], symint=True):
                rows.append(signature_row(namespace, group, no_arguments))
    for pair in pairs[False]:
        if fields := structseq_fieldnames(pair.function.func.returns):
            return_types.setdefault(cpp.name(pair.function.func), fields)
    return rows, names, return_types


def template_bindings(template: str) -> list[tuple[str, str, str, str]]:
    """Name, convention, implementation and signature of the bindings a template has by hand."""
    signatures = defaultdict(list)
    for body in re.split(r"\n ?static PyObject ?\* ?", template)[1:]:
        function = body.partition("(")[0].strip()
        function = re.sub(r"^THPVariable_", "", function)
        if parser := re.search(r"PythonArgParser parser\(\s*\{(.*?)\}", body, re.DOTALL):
            signatures[function] += re.findall(r'"((?:[^"\\]|\\.)*)"', parser[1])
    conventions = {
        "METH_NOARGS": "noargs",
        "METH_O": "one",
        "METH_VARARGS": "args",
        "METH_VARARGS | METH_KEYWORDS": "keywords",
    }
    found = []
    table = template[template.index("static PyMethodDef") if "static PyMethodDef" in template else 0 :]
    for name, target, flags in re.findall(r'\{"(\w+)",\s*(.*?),\s*(METH_[A-Z_| ]+),\s*nullptr\}', table):
        function = re.search(r"THPVariable_(\w+)", target)[1]
        convention = conventions[flags.strip()]
        if "TypeError_to_NotImplemented_" in target:
            convention += "+not_implemented"
        for signature in signatures.get(function) or ["-"]:
            found.append((name, convention, function, signature))
    return found


def stub_signatures(path: Path) -> dict[str, list[str]]:
    """The signatures of each function of a type stub, as `(a: int, *, b: str = ...) -> Tensor`."""
    signatures = defaultdict(list)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            signatures[node.name].append(f"({ast.unparse(node.args)}){returns}")
    return signatures


def manual_bindings(tree: Path, packaged: Path, names: dict[str, set[str]]) -> list[str]:
    rows = []
    for namespace, file in (
        ("Tensor", "variable_methods"),
        ("nn", "nn_functions"),
        ("nested", "nested_functions"),
    ):
        template = packaged / "autograd" / "templates" / f"python_{file}.cpp"
        for name, convention, function, signature in template_bindings(template.read_text(encoding="utf-8")):
            if name in names[namespace]:
                continue
            # Several methods are another spelling of a generated one.
            alias = function if signature == "-" and function in names[namespace] else "-"
            rows.append("\t".join([namespace, name, convention, alias, signature]))
    for name, signatures in sorted(stub_signatures(tree / "torch" / "_C" / "_VariableFunctions.pyi").items()):
        if name not in names["torch"]:
            rows += ["\t".join(["torch", name, "stub", "-", signature]) for signature in signatures]
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    packaged = use_tree(arguments.tree)
    rows, names, return_types = generated_bindings(packaged)
    types = [f"{name}\t{' '.join(fields)}" for name, fields in sorted(return_types.items())]
    manual = manual_bindings(arguments.tree, packaged, names)
    write(arguments.output, PYTHON_TABLES / "python_functions.tsv", "\n".join(rows) + "\n")
    write(arguments.output, PYTHON_TABLES / "return_types.tsv", "\n".join(types) + "\n")
    write(arguments.output, PYTHON_TABLES / "manual_bindings.tsv", "\n".join(manual) + "\n")


if __name__ == "__main__":
    main()
