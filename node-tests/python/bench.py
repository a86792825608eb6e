"""The same measurements in Pyodide and, for comparison, in upstream torch natively on one thread.

`node-tests/bench.mjs` calls `main`; `bench.py [CHECKPOINT]` run by itself prints the same JSON object.
"""

import json
import math
import os
import sys
import time


def start():
    """Seconds that `import torch` takes. The first of the measurements."""
    assert "torch" not in sys.modules
    begun = time.perf_counter()
    import torch

    taken = time.perf_counter() - begun
    if sys.platform != "emscripten":
        torch.set_num_threads(1)
    return {"import torch (s)": taken}


def best(work, budget=0.5):
    """The shortest mean time of one call, in microseconds, over repeated batches of calls within `budget` seconds."""
    work()
    begun = time.perf_counter()
    work()
    calls = max(1, min(2000, int(0.02 / max(time.perf_counter() - begun, 1e-7))))
    shortest, end = math.inf, time.perf_counter() + budget
    while time.perf_counter() < end:
        begun = time.perf_counter()
        for _ in range(calls):
            work()
        shortest = min(shortest, (time.perf_counter() - begun) / calls)
    return shortest * 1e6


def dispatch():
    """Microseconds of one call on tiny tensors."""
    import torch

    x, y, square, weight = torch.ones(4), torch.ones(4), torch.ones(4, 4), torch.ones(4, 4)
    linear = torch.nn.Linear(4, 4)
    calls = {
        "x.add(y) (µs)": lambda: x.add(y),
        "x + y (µs)": lambda: x + y,
        "x.view(2, 2) (µs)": lambda: x.view(2, 2),
        "x[:, 1] (µs)": lambda: square[:, 1],
        "F.linear (µs)": lambda: torch.nn.functional.linear(x, weight),
        "nn.Linear (µs)": lambda: linear(x),
        "torch.empty(4) (µs)": lambda: torch.empty(4),
        "x.sum().item() (µs)": lambda: x.sum().item(),
    }
    with torch.no_grad():
        return {name: best(call) for name, call in calls.items()}


def products():
    """GFLOP/s of matrix products."""
    import torch

    speeds = {}
    for dtype in (torch.float32, torch.bfloat16):
        for m, k, n in ((256, 256, 256), (512, 512, 512), (1, 2048, 2048)):
            a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
            microseconds = best(lambda a=a, b=b: torch.nn.functional.linear(a, b), budget=1.0)
            speeds[f"{str(dtype)[6:]} {m}x{k}x{n} (GFLOP/s)"] = 2 * m * k * n / microseconds / 1e3
    return speeds


def generation(checkpoint):
    """Seconds to load, then tokens a second of the demo's checkpoint."""
    import demo

    begun = time.perf_counter()
    model, tokenizer = demo.load(checkpoint)
    loaded = time.perf_counter() - begun
    demo.stream(model, tokenizer, "Hi", lambda text: None, max_new_tokens=2)
    begun = time.perf_counter()
    ids = demo.stream(model, tokenizer, "What is gravity?", lambda text: None, max_new_tokens=32)
    return {"SmolLM2-135M load (s)": loaded, "SmolLM2-135M (tokens/s)": len(ids) / (time.perf_counter() - begun)}


def main(checkpoint=None):
    """Everything, as the text of one JSON object. What fails is there as its error."""
    measured = start()
    for part in (dispatch, products, *((lambda: generation(checkpoint),) if checkpoint else ())):
        try:
            measured |= part()
        except Exception as error:
            measured[f"{type(error).__name__}: {error}"[:200]] = math.nan
    return json.dumps({name: None if math.isnan(value) else value for name, value in measured.items()})


if __name__ == "__main__":
    sys.path.append(os.path.join(os.path.dirname(__file__), "../../xtask/py"))
    print(main(*sys.argv[1:]))
