"""Recorded answers: how they are written, and how a result is compared with one.

A leaf is exact (integers, bools, views, and values that were only moved) or has two bounds of upstream's own error,
measured when it was recorded: `absolute`, the largest |u - w| over the elements, and `ulps`, the largest |u - w| in
units in the last place of w. There u is what upstream answers and w what it answers when the same inputs are held in
64 bits; the change of w when every input is moved by one rounding error, in several patterns, counts as error too,
since a sum may be right by luck (where w is not to be had, the change of u). Every element of u keeps both bounds, so
e = min(absolute, ulps * ulp) is upstream's error at an element. An implementation that adds in another order errs by as
much again in either direction; hence |ours - u| <= 3 e, plus what the last rounding on both sides may differ by: two
units in the last place, or one in half precision.
"""

import base64
import hashlib
from dataclasses import dataclass

import numpy as np
from _language import PRECISION, Shown

# Up to so many values are written out; of more, a sample.
WHOLE = 96
SAMPLE = 32
EXACT_SAMPLE = 8
HALF = ("bf16", "f16")


@dataclass
class Answer:
    """A recorded leaf: what must be equal as text, and the values with their bounds."""

    facts: str
    digest: str
    absolute: float
    ulps: float
    count: int
    values: np.ndarray
    sums: tuple

    @property
    def exact(self):
        """Whether the values must be the same bits."""
        return bool(self.digest)


def facts(leaf):
    """All that must be equal exactly, but the values."""

    def show(numbers):
        return ",".join(map(str, numbers))

    return "|".join((leaf.dtype, show(leaf.shape), show(leaf.strides), str(leaf.offset), leaf.alias, leaf.flags or "."))


FACTS = ("dtype", "shape", "strides", "offset", "alias", "flags")


def ulp(values, name):
    """The unit in the last place at each value, as float64 (for complex numbers, at the modulus)."""
    bits, smallest = PRECISION[name]
    magnitude = np.abs(values.astype(np.complex128 if name.startswith("c") else np.float64))
    _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 1.0))
    return np.ldexp(1.0, np.maximum(exponent - 1, smallest) - bits + 1)


def _canonical(values):
    """The bytes of the values, with one pattern for every NaN."""
    if values.dtype.kind in "fc":
        parts = values.view(values.real.dtype).copy()
        parts[np.isnan(parts)] = np.nan
        return parts.tobytes()
    return values.tobytes()


def digest(values):
    """Enough of a hash of all the values."""
    return hashlib.sha256(_canonical(values)).hexdigest()[:12]


def sample(count, size):
    """The positions that are kept of `count` values."""
    return np.arange(count) if count <= WHOLE else np.linspace(0, count - 1, size).astype(np.int64)


def sums(values):
    """The sum and the sum of magnitudes of the finite values."""
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    wide = wide[np.isfinite(wide)]
    return complex(wide.sum()), float(np.abs(wide).sum())


def tolerance(values, name, absolute, ulps):
    """How far each value may be from ours; see the module's text."""
    unit = ulp(values, name)
    return 3 * np.minimum(absolute, ulps * unit) + (1 if name in HALF else 2) * unit


def _pack(values, name):
    """Values as text."""
    raw = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes() if name == "bf16" else values.tobytes()
    return base64.b64encode(raw).decode().rstrip("=")


def _unpack(text, name):
    """Values from text."""
    from _language import to_numpy

    return to_numpy(base64.b64decode(text + "=" * (-len(text) % 4)), name)


def write_leaf(leaf, bounds):
    """A leaf as text; `bounds` are the two bounds of its error, or nothing where it is exact."""
    if leaf.values is None:
        return facts(leaf) + "|none"
    if bounds is None:
        kept = leaf.values[sample(leaf.values.size, EXACT_SAMPLE)]
        return f"{facts(leaf)}|={digest(leaf.values)}|{_pack(kept, leaf.dtype)}"
    kept = leaf.values[sample(leaf.values.size, SAMPLE)]
    text = f"{facts(leaf)}|{bounds[0]:.2e}~{bounds[1]:.2e}|{_pack(kept, leaf.dtype)}"
    if leaf.values.size > WHOLE:
        total, size = sums(leaf.values)
        text += f"|{total.real!r}|{total.imag!r}|{size!r}"
    return text


def read_leaf(text):
    """A leaf from text."""
    *first, bounds = text.split("|")[:7]
    rest = text.split("|")[7:]
    name, shape = first[0], first[1]
    count = int(np.prod([int(n) for n in shape.split(",") if n], dtype=np.int64))
    if bounds == "none":
        return Answer("|".join(first), "", 0, 0, -1, np.empty(0), ())
    values = _unpack(rest[0], name)
    if bounds.startswith("="):
        return Answer("|".join(first), bounds[1:], 0, 0, count, values, ())
    absolute, ulps = map(float, bounds.split("~"))
    return Answer("|".join(first), "", absolute, ulps, count, values, tuple(map(float, rest[1:])))


def write(shown, bounds):
    """What an expression showed as one field of text."""
    if shown.error:
        return f"!{shown.error} {shown.message}"
    return "\t".join([shown.structure, *(write_leaf(leaf, b) for leaf, b in zip(shown.leaves, bounds, strict=True))])


def compare(text, shown: Shown):
    """What is wrong with a result, or nothing; `text` is the recorded answer."""
    if text.startswith("!"):
        error, _, message = text[1:].partition(" ")
        if not shown.error:
            return f"returned {shown.structure}, must raise {error}: {message}"
        return "" if shown.error == error else f"raised {shown.error}: {shown.message}, must be {error}: {message}"
    if shown.error:
        return f"raised {shown.error}: {shown.message}"
    structure, *leaves = text.split("\t")
    if structure != shown.structure:
        return f"returned {shown.structure}, must be {structure}"
    for index, (recorded, leaf) in enumerate(zip(leaves, shown.leaves, strict=True)):
        if wrong := _compare_leaf(read_leaf(recorded), leaf):
            return wrong if len(leaves) == 1 else f"result {index}: {wrong}"
    return ""


def _compare_leaf(answer, leaf):
    """What is wrong with one leaf."""
    for what, ours, theirs in zip(FACTS, facts(leaf).split("|"), answer.facts.split("|"), strict=True):
        if ours != theirs:
            return f"{what} is {ours}, must be {theirs}"
    if answer.count < 0:
        return "" if leaf.values is None else "has values, must have none"
    if leaf.values is None:
        return "has no values"
    if answer.exact:
        if digest(leaf.values) == answer.digest:
            return ""
        kept = leaf.values[sample(leaf.values.size, EXACT_SAMPLE)]
        return f"values are {_show(kept)}, must be exactly {_show(answer.values)}"
    kept = leaf.values[sample(leaf.values.size, SAMPLE)]
    if wrong := _far(kept, answer, leaf.dtype):
        return wrong
    if answer.sums:
        total, size = sums(leaf.values)
        allowed = np.mean(tolerance(answer.values, leaf.dtype, answer.absolute, answer.ulps)) * answer.count
        off = max(abs(total - complex(*answer.sums[:2])), abs(size - answer.sums[2]))
        if not off <= allowed:
            return f"the values' sums are off by {off:.3g}, at most {allowed:.3g} is allowed"
    return ""


def _far(ours, answer, name):
    """What is wrong with values that may err."""
    theirs = answer.values
    with np.errstate(all="ignore"):
        parts = ours.view(ours.real.dtype), theirs.view(theirs.real.dtype)
        special = [np.where(np.isfinite(part), 0, part) for part in parts]
        if not np.array_equal(*special, equal_nan=True):
            return f"values are {_show(ours)}, must be {_show(theirs)}"
        wide = np.complex128 if name.startswith("c") else np.float64
        off = np.abs(ours.astype(wide) - theirs.astype(wide))
        allowed = tolerance(theirs, name, answer.absolute, answer.ulps)
        bad = off > allowed
    if not bad.any():
        return ""
    worst = int(np.argmax(np.where(bad, off / allowed, 0)))
    return (
        f"{int(bad.sum())} of {bad.size} values are off; the worst is {ours[worst]!r}, must be {theirs[worst]!r}"
        f" within {allowed[worst]:.3g}"
    )


def _show(values):
    """A few values."""
    text = ", ".join(str(value) for value in values[:8])
    return f"[{text}{', …' if values.size > 8 else ''}]"
