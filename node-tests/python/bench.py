"""Times in Pyodide, as one JSON object: what `cargo xtask bench` prints beside upstream's.

`import torch` is timed by the caller before this module is imported; everything here takes torch as loaded.
"""

import json
import time

import torch


def best(work, budget=0.4):
    """The shortest time of one call, in microseconds, over repeated batches of calls within `budget` seconds."""
    work()
    start = time.perf_counter()
    work()
    calls = max(1, min(1000, int(0.02 / max(time.perf_counter() - start, 1e-7))))
    shortest, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        shortest = min(shortest, (time.perf_counter() - start) / calls)
    return shortest * 1e6


def dispatch():
    """Microseconds of one call on tiny tensors."""
    x, y, index = torch.ones(4), torch.ones(4), torch.ones(4, 4)
    weight = torch.ones(4, 4)
    linear = torch.nn.Linear(4, 4)
    calls = {
        "x.add(y)": lambda: x.add(y),
        "x + y": lambda: x + y,
        "x.view": lambda: x.view(2, 2),
        "x[:, 1]": lambda: index[:, 1],
        "F.linear": lambda: torch.nn.functional.linear(x, weight),
        "nn.Linear": lambda: linear(x),
        "torch.empty": lambda: torch.empty(4),
        ".item()": lambda: x.sum().item(),
    }
    with torch.no_grad():
        return {name: best(call) for name, call in calls.items()}


def products():
    """GFLOP/s of matrix products."""
    speeds = {}
    for dtype in (torch.float32, torch.bfloat16):
        for m, k, n in ((256, 256, 256), (512, 512, 512), (1, 2048, 2048)):
            a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
            microseconds = best(lambda a=a, b=b: torch.nn.functional.linear(a, b), budget=1.0)
            speeds[f"{str(dtype)[6:]} {m}x{k}x{n}"] = 2 * m * k * n / microseconds / 1e3
    return speeds


def generation(checkpoint):
    """Seconds to load, then tokens a second of the demo's checkpoint."""
    import demo

    start = time.perf_counter()
    model, tokenizer = demo.load(checkpoint)
    loaded = time.perf_counter() - start
    demo.stream(model, tokenizer, "Hi", lambda text: None, max_new_tokens=2)
    start = time.perf_counter()
    ids = demo.stream(model, tokenizer, "What is gravity?", lambda text: None, max_new_tokens=32)
    return {"load (s)": loaded, "tokens/s": len(ids) / (time.perf_counter() - start)}


def main(checkpoint=None):
    """Everything, as JSON."""
    measured = {"dispatch (us)": dispatch(), "products (GFLOP/s)": products()}
    if checkpoint:
        measured["generation"] = generation(checkpoint)
    return json.dumps(measured)
