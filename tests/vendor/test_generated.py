"""The committed tables are what the generators make of the pinned tree."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = Path("core/engine/src/generated")
TORCH_C = Path("core/torch_c/src/generated")
WRITTEN = {
    "ops.py": [ENGINE / "ops.tsv", ENGINE / "op_ids.rs"],
    "derivatives.py": [ENGINE / "derivatives.tsv"],
    "python_functions.py": [
        TORCH_C / "python_functions.tsv",
        TORCH_C / "return_types.tsv",
        TORCH_C / "manual_bindings.tsv",
    ],
}


@pytest.mark.parametrize("script", WRITTEN)
def test_tables_are_current(script, tree, tmp_path):
    command = [sys.executable, ROOT / "vendor" / "generate" / script, "--tree", tree, "--output", tmp_path]
    subprocess.run(command, check=True, capture_output=True, text=True)
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert written == sorted(WRITTEN[script])
    for name in written:
        fresh, committed = (tmp_path / name).read_bytes(), (ROOT / name).read_bytes()
        assert fresh == committed, f"{name} is stale; run `python vendor/generate/{script}`"


def rows(name):
    return [line.split("\t") for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]


def test_signatures_call_operators_of_the_table():
    arguments = {}
    for schema, *_ in rows(ENGINE / "ops.tsv"):
        name, _, rest = schema.partition("(")
        inner = rest[: rest.rindex(") -> ")]
        arguments[name] = [word for word in inner.split(", ") if word and word != "*"]
    return_types = {name for name, _ in rows(TORCH_C / "return_types.tsv")}
    for row in rows(TORCH_C / "python_functions.tsv"):
        assert len(row) == 9
        signature = row[1]
        inner = signature[signature.index("(") + 1 : signature.rindex(")")]
        parameters = [word for word in inner.split(", ") if word and word != "*"]
        for operator, sources, returned in (row[3:6], row[6:9]):
            if operator == "-":
                continue
            words = [] if sources == "-" else sources.split(",")
            # Defaults such as `{0, 1}` hold commas of their own, so these counts are bounds.
            assert len(words) <= len(arguments[operator])
            for word in words:
                index = word.split(":")[0].split(".")[0]
                assert word == "_" or word == "s" or word.startswith("=") or int(index) < len(parameters)
            assert returned == "-" or returned in return_types


@pytest.mark.parametrize(
    ("namespace", "signature", "operators", "sources"),
    [
        (
            "torch",
            "add(Tensor input, Tensor other, *, Scalar alpha=1, Tensor out=None)",
            ("add.Tensor", "add.out"),
            ("0,1,2", "0,1,2,3"),
        ),
        ("Tensor", "add(Scalar alpha, Tensor other)|deprecated", ("add.Tensor", "-"), ("s,1,0", "-")),
        ("Tensor", "addmm(Scalar beta, Tensor mat1, Tensor mat2)|deprecated", ("addmm", "-"), ("s,1,2,0,=1", "-")),
        (
            "torch",
            "max(Tensor input, int64_t dim, bool keepdim=False, *, TensorList[2] out=None)",
            ("max.dim", "max.dim_max"),
            ("0,1,2", "0,1,2,3.0,3.1"),
        ),
        ("Tensor", "where(Tensor condition, Tensor other)", ("where.self", "-"), ("0,s,1", "-")),
    ],
)
def test_known_signatures(namespace, signature, operators, sources):
    (row,) = [row for row in rows(TORCH_C / "python_functions.tsv") if row[:2] == [namespace, signature]]
    assert (row[3], row[6]) == operators
    assert (row[4], row[7]) == sources


def test_overloads_stand_in_the_order_they_are_tried():
    names = [row[1] for row in rows(TORCH_C / "python_functions.tsv") if row[0] == "torch" and row[1].startswith("eq(")]
    assert names == [
        "eq(Tensor input, Tensor other, *, Tensor out=None)",
        "eq(Tensor input, Scalar other, *, Tensor out=None)",
    ]
