"""One side of a comparison: times cases in its own process, as the lines of its standard input ask.

A request is `list GROUP`, `make GROUP INDEX`, or `time`; each gets one line of JSON. The process has one torch: the
other side is another process.
"""

import json
import os
import sys
import time


def answer(**fields):
    """Sends one line."""
    os.write(OUT, (json.dumps(fields) + "\n").encode())


def calls(run, repetitions, clock):
    """The seconds of so many calls."""
    turns = [None] * repetitions
    start = clock()
    for _ in turns:
        run()
    return clock() - start


def main():
    """Serves requests."""
    import torch
    from cases import GROUPS

    groups, case, run, repetitions = {}, None, None, 1
    answer(version=torch.__version__, cores=os.cpu_count())
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            if word == "list":
                groups[rest[0]] = GROUPS[rest[0]]()
                answer(names=[c.name for c in groups[rest[0]]])
            elif word == "make":
                case, run = groups[rest[0]][int(rest[1])], None
                torch.set_num_threads(case.threads)
                run = case.make()
                run()
                # As many repetitions as take the time that a sample may.
                repetitions = 1
                while repetitions < 1_000_000:
                    took = calls(run, repetitions, time.perf_counter)
                    if took >= 0.02:
                        break
                    repetitions *= max(2, min(10, int(0.025 / max(took, 1e-6))))
                answer(made=case.name)
            else:
                clock = time.process_time if case.cpu else time.perf_counter
                answer(seconds=calls(run, repetitions, clock) / repetitions)
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    # What libraries print goes elsewhere: standard output is the answers' alone.
    OUT = os.dup(1)
    os.dup2(2, 1)
    main()
