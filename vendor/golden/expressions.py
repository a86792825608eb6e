"""Records what upstream answers to the expressions of `tests/golden`: `tests/data/golden/<family>.tsv`.

Families named as arguments are recorded; without any, all are. See `tests/golden/README.md`.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np
import torch
from _answers import ulp, write
from _language import FOLDER, PRECISION, Inputs, evaluate, families, lines

WIDE = [
    (r"\btorch\.(float32|float16|bfloat16|half|float)\b(?!\()", "torch.float64"),
    (r"\btorch\.(complex64|cfloat)\b", "torch.complex128"),
    (r"\.(float|half|bfloat16)\(\)", ".double()"),
]

# Patterns in which the inputs are nudged: one may leave an element where it is by luck.
NUDGES = 8


def widened(code):
    """The same expression in 64 bits."""
    for pattern, wide in WIDE:
        code = re.sub(pattern, wide, code)
    return code


def try_wide(line, names, nudge, fine=False):
    """What the expression shows in 64 bits."""
    torch.set_default_dtype(torch.float64)
    try:
        return evaluate(widened(line.code), Inputs(names, nudge, fine))
    finally:
        torch.set_default_dtype(torch.float32)


def alike(a, b):
    """Whether two results are the same but for values and dtypes."""
    return (
        b is not None
        and not b.error
        and a.structure == b.structure
        and [leaf.shape for leaf in a.leaves] == [leaf.shape for leaf in b.leaves]
        and all((x.values is None) == (y.values is None) for x, y in zip(a.leaves, b.leaves, strict=True))
    )


def moved(leaf, inputs_values):
    """Whether every value of a leaf is one of those."""
    parts = leaf.values.view(leaf.values.real.dtype)
    finite = parts[np.isfinite(parts)]
    return bool(np.isin(finite, inputs_values).all())


def values_of(inputs):
    """The values of all inputs, 0 and 1, and their negatives."""
    from _language import SHORT, elements, to_numpy

    parts = [np.array([0.0, 1.0])]
    for made in inputs.made:
        array = to_numpy(elements(made), SHORT[made.dtype])
        if array.dtype.kind in "fc":
            parts.append(array.view(array.real.dtype).astype(np.float64))
    values = np.concatenate(parts)
    return np.concatenate((values, -values))


def error_bounds(name, pairs):
    """The largest absolute error and the largest in units in the last place over pairs of values and references.

    The third result is how many of the pairs differ by rounding alone; the others do not count.
    """
    # An error beyond this is not rounding: the 64-bit evaluation did something else (another random stream, say).
    limit = 2.0 ** (-PRECISION[name][0] / 2)
    absolute = ulps = 0.0
    used = 0
    kind = np.complex128 if name.startswith("c") else np.float64
    for a, b in pairs:
        with np.errstate(all="ignore"):
            a, b = a.astype(kind), b.astype(kind)
            good = np.isfinite(a) & np.isfinite(b)
            off = np.where(good, np.abs(a - b), 0)
        if off.size == 0:
            continue
        scale = np.abs(np.where(good, b, 0)).max()
        if off.max() > limit * max(scale, 2.0 ** PRECISION[name][1]):
            continue
        used += 1
        absolute = max(absolute, float(off.max()))
        ulps = max(ulps, float((off / ulp(np.where(good, b, 1), name)).max()))
    # Rounded up, since two digits are kept.
    return absolute * 1.01, ulps * 1.01, used


def nudged(shown, evaluations):
    """The evaluations that are like a result, of as many as there are patterns of nudges."""
    return [other for other in map(evaluations, range(1, NUDGES + 1)) if alike(shown, other)]


def answer(line):
    """The recorded text of one line."""
    inputs = Inputs()
    shown = evaluate(line.code, inputs)
    if shown.error:
        return write(shown, [])
    values = values_of(inputs)
    wide = try_wide(line, inputs.names, 0)
    near, narrow = [], None
    if alike(shown, wide):
        # A result of 64 bits errs by its own rounding, whatever some of its inputs were rounded to.
        fine = any(leaf.dtype in ("f64", "c128") for leaf in shown.leaves)
        near = nudged(shown, lambda n: try_wide(line, inputs.names, n, fine)) if inputs.names else []
    else:
        wide = shown
    bounds = []
    for i, leaf in enumerate(shown.leaves):
        w = wide.leaves[i].values
        if leaf.values is None or leaf.values.dtype.kind not in "fc":
            bounds.append(None)
            continue
        floating = w.dtype.kind in "fc"
        if moved(leaf, values) and (leaf.alias.startswith("i") or (floating and moved(wide.leaves[i], values))):
            bounds.append(None)
            continue
        *own, rounding = error_bounds(leaf.dtype, [(leaf.values, w)])
        *moves, _ = error_bounds(leaf.dtype, [(w, other.leaves[i].values) for other in near])
        if wide is shown or not rounding:
            # Nothing wider to compare with: how the result itself moves with its inputs is the measure.
            if narrow is None:
                narrow = nudged(shown, lambda n: evaluate(line.code, Inputs(nudge=n))) if inputs.names else []
            *moves, _ = error_bounds(leaf.dtype, [(leaf.values, other.leaves[i].values) for other in narrow])
        bounds.append(tuple(map(max, own, moves)))
    return write(shown, bounds)


def record(family, folder):
    """Writes one family's answers."""
    version = torch.__version__.split("+")[0]
    rows = [f"# Answers of torch {version} to tests/golden/{family}.txt; written by `cargo xtask golden expressions`."]
    todo = lines(family)
    errors = 0
    for line in todo:
        text = answer(line)
        errors += text.startswith("!")
        rows.append(f"{line.key}\t{text}")
    path = folder / f"{family}.tsv"
    path.write_text("\n".join(rows) + "\n")
    print(f"{family}: {len(todo)} answers, {errors} of them errors, {path.stat().st_size / 1024:.0f} KiB")


def main():
    """Records the families named, or all."""
    torch.set_num_threads(1)
    folder = Path(os.environ.get("TORCHNATIVE_DATA") or FOLDER.parent / "data") / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    for family in sys.argv[1:] or families():
        record(family, folder)


if __name__ == "__main__":
    main()
