"""The expressions of `tests/golden` against upstream's recorded answers, and proof that the comparison sees faults."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "vendor" / "golden"))

SHOWN = int(os.environ.get("TORCHNATIVE_GOLDEN_SHOWN", "40"))
FAMILIES = sorted(path.stem for path in (ROOT / "tests" / "golden").glob("*.txt"))


def answers(family):
    """The recorded answers of a family, by key."""
    path = ROOT / "tests" / "data" / "golden" / f"{family}.tsv"
    if not path.exists():
        pytest.fail(f"tests/golden/{family}.txt has no recording: run `cargo xtask golden expressions`")
    rows = (row.split("\t", 1) for row in path.read_text().splitlines() if not row.startswith("#"))
    return dict(rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    import torch
    from _answers import compare
    from _language import Inputs, evaluate, lines

    todo, recorded = lines(family), answers(family)
    if {line.key for line in todo} != recorded.keys():
        pytest.fail(f"tests/golden/{family}.txt changed since it was recorded: run `cargo xtask golden expressions`")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    wrong = []
    for line in todo:
        if says := compare(recorded[line.key], evaluate(line.code, Inputs())):
            wrong.append(f"{line.code}\n    {says}")
    torch.set_num_threads(threads)
    if wrong:
        more = [f"… and {len(wrong) - SHOWN} more (TORCHNATIVE_GOLDEN_SHOWN sets how many are shown)"]
        text = "\n".join(wrong[:SHOWN] + (more if len(wrong) > SHOWN else []))
        pytest.fail(f"{len(wrong)} of {len(todo)} expressions of {family} differ from upstream\n{text}", pytrace=False)


def verdict(right, ours, bounds=(1e-7, 1.0)):
    """What the comparison says when upstream answers as `right` does and we answer as `ours` does."""
    from _answers import compare, write
    from _language import Inputs, evaluate

    shown = evaluate(right, Inputs())
    kinds = [bounds if leaf.values.dtype.kind in "fc" else None for leaf in shown.leaves]
    return compare(write(shown, kinds), evaluate(ours, Inputs()))


@pytest.mark.parametrize("expression", ["r(3, 4)", "r(200)", "(r(2), [r(3).t(), 4], 2.5)", "r(2)[5]", "r(0, 2)"])
def test_the_same_answer_passes(expression):
    assert verdict(expression, expression) == ""


@pytest.mark.parametrize(
    ("right", "ours", "says"),
    [
        ("r(6) * 1", "r(6) + 1e-5", "values are off"),
        ("r(6) * 1", "r(6) / 0", "values are"),
        ("pos(500)", "torch.cat((pos(500)[:3] + 1, pos(500)[3:]))[:500].as_strided((500,), (1,))", "alias is"),
        ("torch.cat((pos(500),))", "torch.cat((pos(500)[:3] + 1, pos(500)[3:]))", "values are off"),
        ("torch.cat((pos(500),))", "torch.cat((pos(500)[:450], pos(500)[450:] * 1.001))", "off"),
        ("r(6, dtype=torch.int64)", "r(6, dtype=torch.int64).add_(1)", "must be exactly"),
        ("r(6)", "r(6, dtype=torch.float64)", "dtype is f64, must be f32"),
        ("r(6)", "r(2, 3)", "shape is"),
        ("r(2, 3)", "r(3, 2).t()", "strides is"),
        ("r(6)[:3]", "r(6)[3:]", "offset is"),
        ("r(6).t()", "r(6) + 0", "alias is"),
        ("r(6) + 0", "r(6).t()", "alias is"),
        ("r(2)[5]", "r(2).view(5)", "raised RuntimeError"),
        ("r(2)[5]", "r(2)", "must raise IndexError"),
        ("r(2)", "r(2)[5]", "raised IndexError"),
        ("(r(2), 1)", "[r(2), 1]", "returned"),
        ("(r(2), 1)", "(r(2), 2)", "returned"),
        ("2.5", "2.5001", "values are off"),
    ],
)
def test_a_fault_is_seen(right, ours, says):
    assert says in verdict(right, ours)


def test_a_missing_operator_is_a_fault():
    from _answers import compare
    from _language import Shown

    refused = Shown("", [], "NotImplementedError", "aten::x")
    assert "raised NotImplementedError" in compare("T\tf32|2|1|0|.|.|1e-7~1|AAAAAAAAAAA", refused)


def test_lines_are_substituted_and_refused():
    from _language import parse

    found = parse("# words\n@dtypes i64 bf16\nr(2, dtype=DT)\nr(3)\n")
    assert [line.code for line in found] == ["r(2, dtype=torch.int64)", "r(2, dtype=torch.bfloat16)", "r(3)"]
    assert len({line.key for line in found}) == 3
    with pytest.raises(ValueError, match="line 1"):
        parse("@dtypes f33\n")
