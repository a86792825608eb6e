"""Calls with unusual arguments answer as upstream's: the value, or the error's class and message."""

import importlib.util
import json
import warnings
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
specification = importlib.util.spec_from_file_location("argument_errors", ROOT / "vendor/golden/argument_errors.py")
recorder = importlib.util.module_from_spec(specification)
specification.loader.exec_module(recorder)


def rows():
    lines = (ROOT / "tests/data/argument_errors.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def test_the_recording_is_current():
    assert [row[0] for row in rows()] == recorder.EXPRESSIONS.strip().splitlines()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_answers(row):
    expression, kind, text = row[0], json.loads(row[1]), json.loads(row[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert recorder.answer(expression) == (kind, text)


def test_lists_that_stand_for_tuples_warn():
    tensor = torch.arange(24.0).view(2, 3, 4)
    with pytest.warns(UserWarning, match="Using a non-tuple sequence for multidimensional indexing is deprecated"):
        assert tensor[[[0, 1], [1, 2]]].tolist() == [[4, 5, 6, 7], [20, 21, 22, 23]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tensor[[1, 0]].shape == (2, 3, 4)
