"""Upstream's operator database, ours against the oracle: `cargo xtask conformance`.

The oracle's answers are recorded once and kept (`--cache`); ours are judged in worker processes, so that a crash or a
hang costs one row. A row is an operator and a dtype.
"""

import argparse
import collections
import fnmatch
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VARIANTS = ("function", "method", "inplace", "out", "errors")
SECONDS = 120

LISTING = """
import json, torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_dtype import all_types_and_complex_and
types = all_types_and_complex_and(torch.bool, torch.half, torch.bfloat16, torch.complex32)
rows = []
for i, op in enumerate(op_db):
    rows += [(i, op.formatted_name, str(d)) for d in sorted(op.supported_dtypes("cpu"), key=str) if d in types]
print(json.dumps(rows))
"""


def clean():
    """The environment without what leads Python to our tree."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


class Worker:
    """A process that answers a line of JSON by a line of JSON."""

    def __init__(self, command, environment=None):
        self.command = command
        self.environment = environment
        self.process = None

    def start(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, **pipes, text=True, cwd=HERE, env=self.environment)
        # Importing the database takes seconds, which are not the first row's.
        self.process.stdout.readline()

    def ask(self, request, seconds=SECONDS):
        """The answer, or what became of the process instead."""
        if self.process is None:
            self.start()
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        timed_out = not timer.is_alive()
        timer.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.process = None
        return {"crashed": "took too long" if timed_out else f"the process ended with {code}"}


def judged(row, arguments, recorder, replayer):
    """One row of the report."""
    index, name, dtype = row
    path = arguments.cache / f"{index}.{dtype.removeprefix('torch.')}.pkl"
    if not path.exists():
        answer = recorder.ask([index, dtype, list(VARIANTS)], 600)
        if "path" not in answer:
            return {"op": name, "dtype": dtype, "status": "unrecorded", "why": answer.get("error") or answer["crashed"]}
    answer = replayer.ask([index, str(path), arguments.variants])
    if "crashed" in answer:
        return {"op": name, "dtype": dtype, "status": "crashed", "why": answer["crashed"]}
    if "error" in answer:
        return {"op": name, "dtype": dtype, "status": "raised", "why": answer["error"]}
    kinds = answer["variants"]
    main = kinds.get("function", {"status": "unjudged", "samples": 0})
    return {"op": name, "dtype": dtype, **main, "variants": kinds, "skipped": answer["skipped"]}


def sweep(rows, arguments, report):
    """Judges rows in several processes at a time; keeps the report after each."""
    left = queue.Queue()
    for row in rows:
        left.put(row)
    lock, done = threading.Lock(), [0]
    start = time.monotonic()

    def work():
        recorder = Worker([arguments.oracle, "record.py", str(arguments.cache)], clean())
        replayer = Worker([sys.executable, "replay.py", "--device", arguments.device])
        while True:
            try:
                row = left.get_nowait()
            except queue.Empty:
                return
            result = judged(row, arguments, recorder, replayer)
            with lock:
                report.append(result)
                done[0] += 1
                if arguments.verbose and result["status"] not in ("pass", "unjudged"):
                    print(f"{result['op']} {result['dtype']}: {result['status']}: {result.get('why', '')}", flush=True)
                if done[0] % 100 == 0:
                    arguments.report.write_text(json.dumps(report))
                    print(f"  {done[0]} of {len(rows)} rows, {time.monotonic() - start:.0f} s", flush=True)

    threads = [threading.Thread(target=work) for _ in range(arguments.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def summary(report, device):
    """What the report says, in a few lines."""
    counts = collections.Counter(r["status"] for r in report)
    judged_rows = sum(n for s, n in counts.items() if s not in ("unjudged", "unrecorded"))
    lines = [
        f"{device}: {counts['pass']} of {judged_rows} rows pass ({100 * counts['pass'] / max(judged_rows, 1):.1f} %); "
        + ", ".join(f"{counts[s]} {s}" for s in ("wrong", "raised", "refused", "crashed", "unjudged", "unrecorded"))
    ]
    for variant in VARIANTS[1:]:
        status = collections.Counter(
            r["variants"][variant]["status"] for r in report if variant in r.get("variants", {})
        )
        if total := sum(status.values()):
            lines.append(f"  {variant}: {status['pass']} of {total} ({100 * status['pass'] / total:.1f} %)")
    return lines


def main():
    """Runs the sweep."""
    parser = argparse.ArgumentParser(
        prog="cargo xtask conformance", description="upstream's operator samples against the oracle"
    )
    parser.add_argument("--oracle", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--ops", default="*", help="names, comma separated, with * and ?")
    parser.add_argument("--dtypes", default="*", help="float32,int64,…")
    parser.add_argument("--device", default="cpu", choices=("cpu", "meta"))
    parser.add_argument("--variants", default=",".join(VARIANTS), help="of " + ",".join(VARIANTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, default=Path("report.json"))
    parser.add_argument("--resume", action="store_true", help="keep the rows that the report has")
    parser.add_argument("--compare", type=Path, help="an older report: show what changed")
    parser.add_argument("--verbose", action="store_true", help="show each row that does not pass")
    arguments = parser.parse_args()
    arguments.variants = arguments.variants.split(",")
    arguments.report = arguments.report.resolve()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    listing = subprocess.run(
        [arguments.oracle, "-W", "ignore", "-c", LISTING], check=True, capture_output=True, text=True, env=clean()
    )
    names, dtypes = arguments.ops.split(","), arguments.dtypes.split(",")
    rows = [
        (index, name, dtype)
        for index, name, dtype in json.loads(listing.stdout)
        if any(fnmatch.fnmatch(name, n) for n in names)
        and any(fnmatch.fnmatch(dtype.removeprefix("torch."), d) for d in dtypes)
    ]
    if not rows:
        sys.exit("no operator and dtype of the database has these names")
    report = []
    if arguments.resume and arguments.report.exists():
        report = json.loads(arguments.report.read_text())
        known = {(r["op"], r["dtype"]) for r in report}
        rows = [r for r in rows if (r[1], r[2]) not in known]
    print(f"{len(rows)} rows", flush=True)
    sweep(rows, arguments, report)
    arguments.report.write_text(json.dumps(sorted(report, key=lambda r: (r["op"], r["dtype"])), indent=1))
    for line in summary(report, arguments.device):
        print(line)
    if arguments.compare:
        old = {(r["op"], r["dtype"]): r["status"] for r in json.loads(arguments.compare.read_text())}
        for r in report:
            before = old.get((r["op"], r["dtype"]))
            if before not in (None, r["status"]):
                print(f"  {r['op']} {r['dtype']}: {before} → {r['status']} {r.get('why', '')}")
    print(f"{arguments.report}")


if __name__ == "__main__":
    main()
