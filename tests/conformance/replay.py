"""Makes the recorded calls on this torch and judges the answers.

    python replay.py [--device cpu|meta] < rows      # a row: the index in op_db, the recording's path, the variants

Each line is answered by one line of JSON: for each variant its status, how many samples it had, and the first that
failed.
"""

import argparse
import json
import math
import os
import pickle
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from values import Decoder, flatten, named, tensors

SEED = 20260
# Order of gravity: the worst outcome of a variant's samples is its status.
GRAVITY = ("pass", "refused", "raised", "wrong")
# Rounding in the last place that two right answers may differ by, and how many times upstream's own error is allowed:
# another order of the same sums errs as much again, in either direction.
ULPS, TIMES = 4, 4
EPSILON = {
    "torch.float64": 2.0**-52, "torch.complex128": 2.0**-52, "torch.float32": 2.0**-23, "torch.complex64": 2.0**-23,
    "torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-7, "torch.complex32": 2.0**-10,
}  # fmt: skip


def differs(got, want, error):
    """Why two values differ, or None."""
    if not isinstance(want, torch.Tensor):
        if isinstance(want, float) and isinstance(got, float):
            same = got == want or (math.isnan(got) and math.isnan(want)) or abs(got - want) <= 1e-6 * abs(want)
        else:
            same = type(got) is type(want) and got == want
        return None if same else f"{got!r} instead of {want!r}"
    if not isinstance(got, torch.Tensor):
        return f"{type(got).__name__} instead of a tensor"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} instead of {want.dtype}"
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)} instead of {tuple(want.shape)}"
    if got.numel() > 0 and effective(got) != effective(want):
        return f"strides {got.stride()} instead of {want.stride()} for shape {tuple(want.shape)}"
    return values_differ(got.detach().resolve_conj().resolve_neg(), want.detach().resolve_conj().resolve_neg(), error)


def effective(t):
    """The strides that can be told apart: those of dimensions longer than one."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]


def values_differ(got, want, error):
    """Why the elements differ, or None."""
    import numpy as np

    def array(t):
        if t.dtype == torch.bfloat16 or "float8" in str(t.dtype):
            t = t.to(torch.float32)
        if t.dtype == torch.complex32:
            t = t.to(torch.complex64)
        return t.contiguous().numpy()

    a, b = array(got), array(want)
    epsilon = EPSILON.get(str(want.dtype))
    if epsilon is None:
        same = a == b if a.dtype.kind != "f" else (a == b) | (np.isnan(a) & np.isnan(b))
        allowed = 0
    else:
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        with np.errstate(all="ignore"):
            if error is None:
                # Upstream could not answer in a wider type: the size of the result stands for that of its sums.
                finite = np.abs(b[np.isfinite(b)])
                error = 32 * epsilon * (finite.max() if finite.size else 0.0)
            allowed = TIMES * error + ULPS * epsilon * np.abs(b)
            same = (np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
    if bool(np.all(same)):
        return None
    where = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
    x, y = np.atleast_1d(a)[where], np.atleast_1d(b)[where]
    return f"{x!s} instead of {y!s} at {list(where)} ({int((~same).sum())} of {same.size} elements)"


def judge(function, call, device, unwritten=False):
    """The status of one call, and why."""
    decoder = Decoder(call["data"])
    args, kwargs = (decoder.value(v) for v in call["args"])
    if device == "meta":
        args, kwargs = to_meta(args), to_meta(kwargs)
    torch.manual_seed(SEED)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        name, text = type(error).__name__, f"{type(error).__name__}: {error}"[:200]
        if "raises" in call:
            return (
                ("pass", "")
                if name == call["raises"]
                else ("raised", f"{text} instead of {call['raises']}: {call['message'][:100]}")
            )
        return ("refused" if name == "NotImplementedError" else "raised"), text
    if "raises" in call:
        return "wrong", f"no error instead of {call['raises']}: {call['message'][:100]}"
    wanted = [Decoder(call["out_data"]).value(v) for v in call["out"][1]]
    got = flatten(result)
    if len(got) != len(wanted):
        return "wrong", f"{len(got)} results instead of {len(wanted)}"
    if device == "meta" or unwritten:
        return judge_meta(got, wanted)
    errors = iter(call["error"] or [])
    for g, w in zip(got, wanted, strict=True):
        if why := differs(g, w, next(errors, None) if isinstance(w, torch.Tensor) else None):
            return "wrong", why
    if call["variant"] == "out":
        # A storage that is empty before the call has no identity to record: it must be the result's afterwards.
        given = {t.data_ptr() for t in tensors(kwargs["out"])}
        strays = [t for t in tensors(result) if t.numel() and t.data_ptr() not in given]
        return ("wrong", "a result is not the tensor given for it") if strays else ("pass", "")
    own = {s.data_ptr(): number for number, s in decoder.made.items() if s.nbytes()}
    for t, share in zip(tensors(result), call["shares"], strict=True):
        mine = own.get(t.untyped_storage().data_ptr()) if t.untyped_storage().nbytes() else None
        if mine != share:
            return "wrong", f"shares storage with {mine} instead of {share}"
    return "pass", ""


def judge_meta(got, wanted):
    """Shapes, dtypes and strides alone."""
    for g, w in zip(got, wanted, strict=True):
        if not isinstance(w, torch.Tensor):
            continue
        if (g.dtype, g.shape) != (w.dtype, w.shape) or (w.numel() > 0 and effective(g) != effective(w)):
            return (
                "wrong",
                f"{g.dtype} {tuple(g.shape)} {g.stride()} instead of {w.dtype} {tuple(w.shape)} {w.stride()}",
            )
    return "pass", ""


def to_meta(v):
    """The same arguments on the meta device."""
    if isinstance(v, torch.Tensor):
        return v.to("meta")
    if isinstance(v, torch.device):
        return torch.device("meta")
    if isinstance(v, (tuple, list)) and not isinstance(v, torch.Size):
        return type(v)(to_meta(x) for x in v)
    if isinstance(v, dict):
        return {k: to_meta(x) for k, x in v.items()}
    return v


# Operators whose elements nobody wrote.
UNWRITTEN = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")


def replay(index, path, wanted, device):
    """The outcome of each variant of a recording."""
    op = op_db[index]
    with open(path, "rb") as file:
        recording = pickle.load(file)
    functions = {
        "function": op.op,
        "out": op.op,
        "errors": op.op,
        "method": op.method_variant,
        "inplace": op.inplace_variant,
    }
    outcome = {}
    for call in recording["calls"]:
        variant = call["variant"]
        if variant not in wanted or (device == "meta" and "raises" in call):
            continue
        status, why = judge(functions[variant], call, device, op.name in UNWRITTEN)
        row = outcome.setdefault(variant, {"status": "pass", "samples": 0, "failed": 0})
        row["samples"] += 1
        if status != "pass":
            row["failed"] += 1
            if GRAVITY.index(status) > GRAVITY.index(row["status"]):
                row.update(status=status, sample=call["sample"], why=why)
    return {"variants": outcome, "skipped": recording["skipped"]}


def main():
    """Serves rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, b'{"ready": true}\n')
    for line in sys.stdin:
        index, path, wanted = json.loads(line)
        try:
            answer = replay(index, path, wanted, device)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        os.write(out, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    assert named("torch.float32") is torch.float32
    main()
