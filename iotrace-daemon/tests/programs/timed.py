"""Reads the files of one directory and writes to another, and times each call: timed.py TRUTH READ WRITE.

TRUTH is written as JSON: `reads` and `writes` have the nanoseconds of each call by the program's own clock.
"""

import json
import os
import sys
import time

MIB = 1 << 20
WRITES = 40


def timed(call):
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def reads(directory):
    for index in range(24):
        file = os.open(os.path.join(directory, f"sample-{index:02}.bin"), os.O_RDONLY)
        yield timed(lambda: os.read(file, MIB))
        os.close(file)


def writes(directory):
    file = os.open(os.path.join(directory, "written"), os.O_WRONLY | os.O_CREAT)
    for _ in range(WRITES):
        yield timed(lambda: os.write(file, bytes(1_000)))
    os.close(file)


truth, source, target = sys.argv[1:]
times = {"reads": list(reads(source)), "writes": list(writes(target))}
with open(truth, "w", encoding="utf-8") as file:
    json.dump(times, file)
