"""The language of `tests/golden/*.txt`: its lines, the helpers they see, and what their evaluation shows.

It runs on upstream torch, where answers are recorded, and on ours, where they are compared; it needs little of either:
a tensor is filled and read through its address.
"""

import ctypes
import hashlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden"
# Raised whenever the helpers or the recorded format change, so that older recordings are refused.
VERSION = 1

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}
SHORT = {dtype: name for name, dtype in DTYPES.items()}
# How NumPy holds each; bfloat16 is read and written as the upper half of a float32.
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
    "c64": np.complex64,
    "c128": np.complex128,
}
# Bits of the significand, the leading one included, and the exponent of the smallest normal number.
PRECISION = {"f32": (24, -126), "f64": (53, -1022), "f16": (11, -14), "bf16": (8, -126)}
PRECISION |= {"c64": PRECISION["f32"], "c128": PRECISION["f64"]}


@dataclass(frozen=True)
class Line:
    """One expression for one dtype; `dtype` is empty where the expression does not say DT."""

    source: str
    dtype: str

    @property
    def code(self):
        """The Python to evaluate."""
        return re.sub(r"\bDT\b", str(DTYPES[self.dtype]), self.source) if self.dtype else self.source

    @property
    def key(self):
        """What a recording files its answer under."""
        return hashlib.sha256(f"{VERSION}\t{self.dtype}\t{self.source}".encode()).hexdigest()[:12]


def families():
    """The names of all families."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def parse(text):
    """The lines of a family."""
    lines, dtypes = [], ["f32"]
    for number, source in enumerate(text.splitlines(), 1):
        source = source.strip()
        if not source or source.startswith("#"):
            continue
        if source.startswith("@"):
            word, *dtypes = source.split()
            if word != "@dtypes" or not dtypes or not set(dtypes) <= set(DTYPES):
                raise ValueError(f"line {number}: {source}: expected @dtypes and some of {' '.join(DTYPES)}")
            continue
        lines += [Line(source, dtype) for dtype in (dtypes if re.search(r"\bDT\b", source) else [""])]
    return list(dict.fromkeys(lines))


def lines(family):
    """The lines of the family of that name."""
    return parse((FOLDER / f"{family}.txt").read_text())


def to_numpy(raw, name):
    """An array of the elements in `raw`: wide enough to hold bfloat16, and otherwise of the same type."""
    if name == "bf16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, NUMPY[name])


def _rounded(values, name):
    """The bytes of `values` as that dtype, rounded to nearest even, and the values that they then have."""
    if name == "bf16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        half = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return half.tobytes(), to_numpy(half.tobytes(), name)
    array = values.astype(NUMPY[name])
    return array.tobytes(), array


def _hash(count, seed):
    """`count` well mixed 64-bit numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        x = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed % 2**32 << 32)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _unit(count, seed):
    """Numbers in [0, 1) that a float32 holds exactly."""
    return (_hash(count, seed) >> np.uint64(40)).astype(np.float64) / 2**24


def tensor(array, shape, name):
    """A tensor of that dtype with the bytes of `array`, made without any operator but `empty`."""
    made = torch.empty(shape, dtype=DTYPES[name])
    raw = array if isinstance(array, bytes) else array.tobytes()
    if raw:
        ctypes.memmove(made.data_ptr(), raw, len(raw))
    return made


def elements(value):
    """The bytes of a tensor's elements in row-major order."""
    value = value.detach()
    if value.dtype.is_complex:
        value = value.resolve_conj()
    if value.is_neg():
        value = value.resolve_neg()
    value = value.contiguous()
    size = value.numel() * value.element_size()
    return ctypes.string_at(value.data_ptr(), size) if size else b""


class Inputs:
    """The helpers `r` and `pos` of one evaluation, and the tensors that they made.

    With `wide`, the names of the dtypes that an earlier evaluation asked for, floating tensors hold those same values
    in 64 bits. With `nudge`, the number of a pattern of signs, each value is moved by one rounding error of its dtype
    (of float32 for half precision, whose kernels compute in it, where the values are held in 64 bits). With `fine`,
    the error is float64's.
    """

    def __init__(self, wide=None, nudge=0, fine=False):
        self.wide, self.nudge, self.fine = wide, nudge, fine
        self.made, self.names = [], []

    def r(self, *shape, dtype=torch.float32, seed=0, requires_grad=False):
        """Values in [-2, 2), integers in [-8, 8) (or [0, 16) without a sign), bits."""
        return self._make(shape, dtype, seed, requires_grad, lambda u: u * 4 - 2, lambda u: u * 16 - 8)

    def pos(self, *shape, dtype=torch.float32, seed=0, requires_grad=False):
        """Values in (0.1, 2), integers in [1, 9]."""
        return self._make(shape, dtype, seed, requires_grad, lambda u: u * 1.875 + 0.1171875, lambda u: u * 9 + 1)

    def _make(self, shape, dtype, seed, requires_grad, real, integer):
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        count = int(np.prod(shape, dtype=np.int64))
        name = self.wide[len(self.names)] if self.wide is not None else SHORT[dtype]
        self.names.append(name)
        kind = name
        if dtype.is_complex:
            values = real(_unit(count, seed)) + 1j * real(_unit(count, seed + 0x5EED))
        elif dtype.is_floating_point:
            values = real(_unit(count, seed))
        elif dtype == torch.bool:
            values = _unit(count, seed) < 0.5
        else:
            values = np.floor(integer(_unit(count, seed))).astype(np.int64)
            if integer(0) < 0 and not dtype.is_signed:
                values += 8
        raw, array = _rounded(values, name)
        if dtype.is_floating_point or dtype.is_complex:
            if self.nudge:
                # A step in the last place, either way; half a step of float32 where the result is wider.
                step = 2.0 ** (1 - PRECISION[name][0])
                if self.wide is not None:
                    step = 2.0**-52 if self.fine or name in ("f64", "c128") else 2.0**-24
                array = array * (
                    1 + np.where(_hash(count, seed + 0xD1CE + 7919 * self.nudge) & np.uint64(1), step, -step)
                )
            if self.wide is not None:
                kind = "c128" if dtype.is_complex else "f64"
            if self.wide is not None or self.nudge:
                raw, _ = _rounded(array, kind)
        made = tensor(raw, shape, kind)
        self.made.append(made)
        if requires_grad:
            made.requires_grad_()
        return made


@dataclass
class Leaf:
    """A tensor that an expression returned."""

    dtype: str
    shape: tuple
    strides: tuple
    offset: int
    alias: str
    flags: str
    values: np.ndarray | None


@dataclass
class Shown:
    """What an expression returned: the leaves, and the rest as text; or the class of what it raised."""

    structure: str
    leaves: list
    error: str = ""
    message: str = ""


def _base(value):
    """The address at which the storage starts, or nothing where there is none to compare."""
    if value.device.type != "cpu" or value.numel() == 0:
        return None
    return value.data_ptr() - value.storage_offset() * value.element_size()


def _leaf(value, inputs, seen):
    """Looks at one tensor."""
    plain = value.layout == torch.strided
    name = SHORT.get(value.dtype, str(value.dtype))
    alias, flags = ".", []
    if plain:
        base = _base(value)
        if base is None:
            alias = "-"
        else:
            owners = [f"i{i}" for i, made in enumerate(inputs.made) if _base(made) == base]
            owners += [f"o{i}" for i, other in enumerate(seen) if other == base]
            alias = owners[0] if owners else "."
        seen.append(base)
    else:
        seen.append(None)
        flags.append(str(value.layout).removeprefix("torch."))
    if value.device.type != "cpu":
        flags.append(value.device.type)
    flags += [flag for flag, on in (("grad", value.requires_grad), ("conj", value.is_conj())) if on]
    if type(value) is not torch.Tensor:
        flags.append(type(value).__name__)
    readable = plain and value.device.type == "cpu" and name in SHORT.values()
    return Leaf(
        name,
        tuple(value.shape),
        tuple(value.stride()) if plain else (),
        value.storage_offset() if plain else 0,
        alias,
        "+".join(flags),
        to_numpy(elements(value), name) if readable else None,
    )


def _walk(value, inputs, seen, leaves):
    """The text of a result, with each tensor taken out into `leaves`."""
    if isinstance(value, torch.Tensor):
        leaves.append(_leaf(value, inputs, seen))
        return "T"
    if isinstance(value, dict):
        inner = ", ".join(f"{key!r}: {_walk(item, inputs, seen, leaves)}" for key, item in value.items())
        return f"{type(value).__name__}{{{inner}}}"
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        inner = ", ".join(_walk(item, inputs, seen, leaves) for item in value)
        kind = type(value)
        return f"{'' if kind in (tuple, list) else kind.__name__}{'[' if kind is list else '('}{inner})"
    if type(value) in (float, complex):
        # A number read from a tensor carries the tensor's rounding errors and is compared like one.
        name = "f64" if type(value) is float else "c128"
        array = np.array([value], NUMPY[name])
        leaves.append(Leaf(name, (), (), 0, ".", "number", array))
        seen.append(None)
        return type(value).__name__
    return f"{type(value).__name__}:{value!r}"


def evaluate(code, inputs):
    """Evaluates `code` and looks at what it returned."""
    names = {"torch": torch, "F": F, "nn": nn, "np": np, "r": inputs.r, "pos": inputs.pos}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(code, names)
            leaves = []
            structure = _walk(value, inputs, [], leaves)
        except Exception as error:
            return Shown("", [], type(error).__name__, " ".join(str(error).split())[:160])
    return Shown(structure, leaves)
