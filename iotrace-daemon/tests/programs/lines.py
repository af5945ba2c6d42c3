"""Opens and reads at known lines; writes what the interpreter's own audit hook saw to the file TRUTH."""

import json
import os
import sys
import threading
import time

TRUTH, DATA = sys.argv[1:3]
if len(sys.argv) > 3:
    # The recording begins while this waits.
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.01)
else:
    # The tracer finds the interpreter while it starts.
    time.sleep(1)
opens = {}
lock = threading.Lock()


def audit(event, args):
    if event != "open" or not str(args[0]).startswith(DATA):
        return
    frame = sys._getframe(1)
    while "/lib/python3" in frame.f_code.co_filename or frame.f_code.co_filename.startswith("<frozen"):
        frame = frame.f_back
    with lock:
        file = os.path.basename(frame.f_code.co_filename)
        place = f"{file}:{frame.f_lineno} {frame.f_code.co_qualname}"
        opens[place] = opens.get(place, 0) + 1


names = [f"{DATA}/{index}" for index in range(20)]
for index, name in enumerate(names):
    with open(name, "wb") as file:
        file.write(b"x" * 5000 * (index + 1))
sys.addaudithook(audit)


class Loader:
    def one(self, name):
        with open(name, "rb", buffering=0) as file:
            return len(file.read(1 << 20))


def generate(count):
    for index in range(count):
        with open(names[index % 20], "rb", buffering=0) as file:
            yield len(file.read(10))


def deep(levels):
    if levels:
        return deep(levels - 1)
    return os.close(os.open(names[0], os.O_RDONLY))


def by_library():
    import pathlib

    return len(
        pathlib.Path(names[3])
        .read_bytes()
    )


def save(file, size):
    return file.write(b"w" * size)


def sync(file, lengths):
    before = time.perf_counter_ns()
    os.fsync(file)
    lengths.append(time.perf_counter_ns() - before)


def worker():
    loader = Loader()
    for _ in range(25):
        os.close(
            os.open(names[1], os.O_RDONLY)
        )
        loader.one(names[2])


read = 0
loader = Loader()
for _ in range(50):
    for name in names:
        read += loader.one(name)
generated = sum(generate(77))
for _ in range(11):
    deep(20)
for _ in range(5):
    by_library()
# Each write counts for the line that opened the file, each slow sync for its own line, too.
written, lengths = 0, []
with open(f"{DATA}/saved", "wb", buffering=0) as file:
    for index in range(40):
        written += save(file, 100_000 + index)
        sync(file.fileno(), lengths)
threads = [threading.Thread(target=worker) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
children = []
for index in range(2):
    kept, given = os.pipe()
    child = os.fork()
    if child == 0:
        opens.clear()
        worker()
        exec(compile("\n\nos.close(os.open(names[4], os.O_RDONLY))", "made.py", "exec"))
        os.write(given, json.dumps(opens).encode())
        os._exit(0)
    os.close(given)
    told = b""
    while piece := os.read(kept, 65536):
        told += piece
    os.waitpid(child, 0)
    for place, count in json.loads(told).items():
        opens[place] = opens.get(place, 0) + count
truth = {
    "opens": opens,
    "loader_bytes": read + 6 * 25 * 15000,
    "generated": generated,
    "written": written,
    "sync_ns": lengths,
}
with open(TRUTH, "w") as file:
    json.dump(truth, file)
# Texts of lines are read while the program runs.
time.sleep(1)
