"""Records what upstream answers for the samples of its operator database, a file for each operator and dtype.

    python record.py FOLDER < rows        # a row: the index in op_db, a dtype, the variants

Run with the oracle's Python. Each line is answered by the file's name or by an error.
"""

import json
import os
import pickle
import sys
import warnings
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from values import CannotEncode, Encoder, flatten, named, tensors

SEED = 20260
# A sample is judged by values up to this many bytes of inputs and results.
LIMIT = 16 << 20
# How far rounding may go where upstream's own error is not known from a wider type, in units of the last place.
HIGHER = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}


def widened(v):
    """The same arguments in the widest type of their kind."""
    if isinstance(v, torch.Tensor):
        wide = HIGHER.get(v.dtype)
        return v.detach().to(wide) if wide else v.detach()
    if isinstance(v, torch.dtype):
        return HIGHER.get(v, v)
    if isinstance(v, (tuple, list)) and not isinstance(v, torch.Size):
        return type(v)(widened(x) for x in v)
    if isinstance(v, dict):
        return {k: widened(x) for k, x in v.items()}
    return v


def own_error(function, args, kwargs, result):
    """How far each result of upstream is from the same in the widest type: the greatest distance, or None."""
    try:
        torch.manual_seed(SEED)
        exact = function(*widened(args), **widened(kwargs))
    except Exception:
        return None
    errors = []
    got, exact = tensors(result), tensors(exact)
    if len(got) != len(exact):
        return None
    for a, b in zip(got, exact, strict=True):
        if a.shape != b.shape or not (a.is_floating_point() or a.is_complex()):
            errors.append(None)
            continue
        wide = torch.complex128 if a.is_complex() else torch.float64
        distance = (a.detach().to(wide) - b.detach().to(wide)).abs()
        finite = distance[torch.isfinite(distance)]
        errors.append(finite.max().item() if finite.numel() else 0.0)
    return errors


def called(function, args, kwargs):
    """The encoded call: arguments, and the result with the arguments afterwards, or the exception's class."""
    encoder = Encoder(LIMIT)
    before = (encoder.value(list(args)), encoder.value(dict(kwargs)))
    given = list(encoder.data)
    known = dict(encoder.storages)
    torch.manual_seed(SEED)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        return {"args": before, "data": given, "raises": type(error).__name__, "message": str(error)[:300]}
    after = Encoder(LIMIT)
    out = after.value(list(flatten(result)))
    # Which argument's storage each result lives in: writing through one is seen through the other.
    shares = [
        known.get((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()))
        if t.untyped_storage().nbytes()
        else None
        for t in tensors(result)
    ]
    return {
        "args": before,
        "data": given,
        "out": out,
        "out_data": after.data,
        "shares": shares,
        "error": own_error(function, args, kwargs, result),
    }


def variants(op, sample, wanted):
    """The functions of a sample to call, by the variant's name."""
    args = (sample.input, *sample.args)
    yield "function", op.op, args, sample.kwargs
    if "method" in wanted and op.method_variant is not None and isinstance(sample.input, torch.Tensor):
        yield "method", op.method_variant, args, sample.kwargs
    if (
        "inplace" in wanted
        and op.inplace_variant is not None
        and isinstance(sample.input, torch.Tensor)
        and not sample.broadcasts_input
    ):
        cloned = (sample.input.detach().clone(memory_format=torch.preserve_format), *sample.args)
        yield "inplace", op.inplace_variant, cloned, sample.kwargs
    if "out" in wanted and op.supports_out:
        try:
            torch.manual_seed(SEED)
            expected = op.op(*args, **sample.kwargs)
        except Exception:
            return
        outs = tensors(expected)
        if outs and len(outs) == len(flatten(expected)):
            empty = tuple(torch.empty(0, dtype=t.dtype) for t in outs)
            yield "out", op.op, args, {**sample.kwargs, "out": empty if len(empty) > 1 else empty[0]}


def record(index, dtype, wanted, folder):
    """Writes the file of one operator and dtype."""
    op = op_db[index]
    calls, skipped = [], {}
    torch.manual_seed(SEED)
    samples = op.sample_inputs("cpu", dtype)
    for number, sample in enumerate(samples):
        for variant, function, args, kwargs in variants(op, sample, wanted):
            try:
                calls.append({"sample": number, "variant": variant, **called(function, args, kwargs)})
            except CannotEncode as reason:
                skipped[str(reason)] = skipped.get(str(reason), 0) + 1
    if "errors" in wanted and op.error_inputs_func is not None and dtype == torch.float32:
        for number, error in enumerate(op.error_inputs("cpu")):
            s = error.sample_input
            try:
                calls.append({"sample": number, "variant": "errors", **called(op.op, (s.input, *s.args), s.kwargs)})
            except CannotEncode as reason:
                skipped[str(reason)] = skipped.get(str(reason), 0) + 1
    path = folder / f"{index}.{str(dtype).removeprefix('torch.')}.pkl"
    with open(path.with_suffix(".part"), "wb") as file:
        pickle.dump({"op": op.formatted_name, "calls": calls, "skipped": skipped}, file)
    path.with_suffix(".part").rename(path)
    return path


def main():
    """Serves rows."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, b'{"ready": true}\n')
    for line in sys.stdin:
        index, dtype, wanted = json.loads(line)
        try:
            answer = {"path": str(record(index, named(dtype), wanted, folder))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        os.write(out, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    main()
