"""A loader with workers, which measures itself: whatif.py TRUTH DIRECTORY WORKERS DECODE MAIN CPUS AFTER LAST.

As a DataLoader, the main process gives out samples in turn, keeps two per worker under way, and takes them in order. DECODE and
MAIN are milliseconds of CPU time for a sample in the worker and in the main process. The main process computes for AFTER
milliseconds after the last sample, then tells the workers to end, and computes for LAST before it waits for that. TRUTH is
written as JSON: `seconds` of all that.
"""

import json
import os
import sys
import time

MIB = 1 << 20
PREFETCH = 2


def compute(seconds):
    """Uses the CPU for so long, whoever else does."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def work(paths, decode, orders, results):
    """A worker: reads and decodes each sample that it is given."""
    while True:
        order = os.read(orders, 4)
        if not order:
            os._exit(0)
        file = os.open(paths[int.from_bytes(order, "little")], os.O_RDONLY)
        os.read(file, MIB)
        os.close(file)
        compute(decode)
        os.write(results, order)


def start(paths, decode, others):
    """Starts a worker; the ends of its two pipes."""
    orders, give = os.pipe()
    take, results = os.pipe()
    if os.fork() == 0:
        for end in [give, take, *others]:
            os.close(end)
        work(paths, decode, orders, results)
    os.close(orders)
    os.close(results)
    return give, take


def main():
    truth, directory, workers, decode, own, cpus, after, last = sys.argv[1:]
    if int(cpus):
        os.sched_setaffinity(0, list(os.sched_getaffinity(0))[: int(cpus)])
    began = time.monotonic()
    count = 80
    paths = [os.path.join(directory, f"sample-{index:02}.bin") for index in range(count)]
    pool = []
    for _ in range(int(workers)):
        others = [end for pipes in pool for end in pipes]
        pool.append(start(paths, float(decode) / 1000, others))
    given = 0

    def give():
        nonlocal given
        if given < count:
            os.write(pool[given % len(pool)][0], given.to_bytes(4, "little"))
            given += 1

    for _ in range(PREFETCH * len(pool)):
        give()
    for index in range(count):
        os.read(pool[index % len(pool)][1], 4)
        give()
        compute(float(own) / 1000)
    compute(float(after) / 1000)
    for send, _ in pool:
        os.close(send)
    compute(float(last) / 1000)
    for _ in pool:
        os.wait()
    with open(truth, "w") as file:
        json.dump({"seconds": time.monotonic() - began}, file)


main()
