"""Times ours and upstream side by side in one run and writes the table.

Both processes hold the same case and are asked in turn, so that whatever else the machine does falls on both; of each
side's samples the median is kept. `cargo xtask bench` starts this with both interpreters.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TITLES = {
    "dispatch": "Calls on tiny tensors (CPU time, one thread)",
    "gemm": "Matrix products of a Llama of SmolLM2-135M's shape (one thread)",
    "model": "A Llama of SmolLM2-135M's shape, random weights",
    "import": "Start",
}


class Side:
    """A process with one torch."""

    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, HERE / "worker.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.about = self.read()

    def read(self):
        """One answer."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended ({self.process.wait()})"}

    def ask(self, *words):
        """A request and its answer."""
        try:
            print(*words, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return {"error": "the process ended"}
        return self.read()

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def text(seconds):
    """A duration as a person writes it."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def measure(sides, samples):
    """The median of each side, asked in turn."""
    times = [[], []]
    for turn in range(samples):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            got = sides[i].ask("time")
            if "error" in got:
                return got["error"]
            times[i].append(got["seconds"])
    return [statistics.median(side) for side in times]


def group(pythons, name, only, samples):
    """The rows of one group: case, ours, upstream."""
    sides = [Side(python) for python in pythons]
    names = [side.ask("list", name) for side in sides]
    if bad := next((n["error"] for n in names if "error" in n), None):
        sys.exit(f"{name}: {bad}")
    rows = []
    for index, case in enumerate(names[0]["names"]):
        if only and not any(word in case for word in only):
            continue
        made = [side.ask("make", name, index) for side in sides]
        wrong = [f"{who}: {m['error']}" for who, m in zip(("ours", "upstream"), made, strict=True) if "error" in m]
        result = "; ".join(wrong) if wrong else measure(sides, samples)
        rows.append((case, result))
        show(rows[-1])
    for side in sides:
        side.close()
    return rows


def keeps_bytecode():
    """The environment in which both sides start from bytecode: the first start writes it."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def imports(pythons, only, samples):
    """The time of `import torch` in a new process: CPU time of the child."""
    case = "import torch (CPU time)"
    if only and not any(word in case for word in only):
        return []
    times = [[], []]
    for turn in range(samples + 1):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            before = os.times()
            subprocess.run([pythons[i], "-c", "import torch"], check=True, env=keeps_bytecode())
            after = os.times()
            took = after.children_user + after.children_system - before.children_user - before.children_system
            if turn:
                times[i].append(took)
    row = (case, [statistics.median(side) for side in times])
    show(row)
    return [row]


def cells(row):
    """A row as text."""
    name, result = row
    if isinstance(result, str):
        return name, "–", "–", result.replace("|", "/").splitlines()[0][:100]
    ours, theirs = result
    return name, text(ours), text(theirs), f"{ours / theirs:.2f}"


def show(row):
    """Prints a row."""
    name, ours, theirs, ratio = cells(row)
    print(f"{name:<44} {ours:>9} {theirs:>9} {ratio:>6}", flush=True)


def processor():
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write(path, tables, version, command):
    """Writes the page."""
    lines = [
        "# Benchmarks",
        "",
        "Ours beside upstream in one run: both processes hold the same case and are timed in turn; shown are the",
        "medians and their ratio (below 1, ours is faster). One thread is timed by CPU time, more by the wall.",
        "",
        "Pyodide's numbers are in [pyodide.md](pyodide.md).",
        "",
        f"    {command}",
        "",
        f"{datetime.date.today().isoformat()}, {processor()}, {os.cpu_count()} cores, upstream {version}.",
    ]
    for name, rows in tables.items():
        lines += ["", f"## {TITLES[name]}", "", "| | ours | upstream | ratio |", "| --- | ---: | ---: | ---: |"]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    path.write_text("\n".join(lines) + "\n")


def main():
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True, help="an interpreter with this torch")
    parser.add_argument("--oracle", required=True, help="an interpreter with upstream's torch")
    parser.add_argument("--groups", default=",".join(TITLES), help="which groups, separated by commas")
    parser.add_argument("--only", action="append", default=[], help="only cases whose name contains this")
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--command", default="cargo xtask bench")
    args = parser.parse_args()
    pythons = [args.ours, args.oracle]
    tables = {}
    started = time.monotonic()
    print(f"{'':<44} {'ours':>9} {'upstream':>9} {'ratio':>6}")
    for name in args.groups.split(","):
        if name not in TITLES:
            parser.error(f"there is no group {name}; there are {', '.join(TITLES)}")
        samples = args.samples if name != "model" else max(3, args.samples // 2)
        rows = imports(pythons, args.only, samples) if name == "import" else group(pythons, name, args.only, samples)
        if rows:
            tables[name] = rows
    print(f"{time.monotonic() - started:.0f} s")
    if args.write:
        version = subprocess.run(
            [args.oracle, "-c", "import torch; print(torch.__version__)"], check=True, capture_output=True, text=True
        ).stdout.strip()
        write(args.write, tables, version, args.command)


if __name__ == "__main__":
    main()
