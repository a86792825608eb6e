"""Runs one test at a time for run.mjs, so that a test that kills the interpreter is known by name."""

import importlib
import inspect
import sys
import traceback

HAS_TRANSFORMERS = sys.version_info >= (3, 14)


def needs_transformers(test):
    """Marks a test for the releases that transformers is installed in."""
    test.needs_transformers = True
    return test


def names(module):
    """The tests of a module that apply here, in the order they are written."""
    found = vars(importlib.import_module(module)).items()
    tests = [(name, value) for name, value in found if name.startswith("test_") and callable(value)]
    return [name for name, value in tests if HAS_TRANSFORMERS or not hasattr(value, "needs_transformers")]


async def run(module, name):
    """Runs a test; gives what went wrong as a text, or nothing."""
    try:
        outcome = getattr(sys.modules[module], name)()
        if inspect.isawaitable(outcome):
            await outcome
    except BaseException:
        return traceback.format_exc(limit=12)
    return ""


def raises(kind, work, *parts):
    """Asserts that `work` raises exactly `kind`, with each of `parts` in its message; gives the exception."""
    try:
        result = work()
    except BaseException as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        for part in parts:
            assert part in str(error), f"{part!r} is not in {str(error)!r}"
        return error
    raise AssertionError(f"no {kind.__name__} but {result!r}")
