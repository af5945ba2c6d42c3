"""What a training process has read and written until now, from the running iotrace service.

The standard library is all it needs, and no privilege: the service tells a process about itself and its descendants (the
workers of a DataLoader among them), and about other processes of the same user.

    io = IOTrace()
    for batch in loader:
        ...
        step = io.step()            # since the last step
        print(step["total"]["bytes_read"])

`step["phases"]` has the same for each phase with any I/O; "training" is there only if the paths of the data tell what they are.

With PyTorch Lightning:

    class LogIO(lightning.Callback):
        def on_train_start(self, trainer, module):
            self.io = IOTrace()

        def on_train_batch_end(self, trainer, module, outputs, batch, index):
            module.log("io/bytes_read", float(self.io.step()["total"]["bytes_read"]))

With Keras:

    class LogIO(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.io = IOTrace()

        def on_train_batch_end(self, batch, logs=None):
            logs["io_bytes_read"] = self.io.step()["total"]["bytes_read"]
"""

import json
import os
import socket

SOCKET = os.environ.get("IOTRACE_SOCKET", "/run/iotrace/iotrace.sock")


class IOTraceError(Exception):
    """The service refuses, or does not answer."""


def snapshot(pid=None, path=SOCKET, timeout=10.0):
    """Everything that process `pid` (this one by default) and its descendants have done since the service knows them."""
    request = {"iotrace": 1, "snapshot": {} if pid is None else {"pid": pid}}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(timeout)
            stream.connect(path)
            stream.sendall(json.dumps(request).encode() + b"\n")
            with stream.makefile("rb") as lines:
                answer = json.loads(lines.readline() or b"{}")
    except OSError as error:
        raise IOTraceError(f"no iotrace service answers at {path}: {error}") from error
    if "snapshot" not in answer:
        raise IOTraceError(answer.get("error", {}).get("message", "the service says nothing"))
    return answer["snapshot"]


def difference(now, before):
    """What was done between two snapshots of one process."""

    def minus(later, earlier):
        return {key: value - earlier.get(key, 0) for key, value in later.items()}

    phases = {name: minus(done, before["phases"].get(name, {})) for name, done in now["phases"].items()}
    return {
        **now,
        "since_unix_ns": before["time_unix_ns"],
        "total": minus(now["total"], before["total"]),
        "phases": {name: done for name, done in phases.items() if any(done.values())},
    }


class IOTrace:
    """Tells at each step what was done since the step before."""

    def __init__(self, pid=None, path=SOCKET):
        self._of = (pid, path)
        self._last = snapshot(pid, path)

    def step(self):
        now = snapshot(*self._of)
        done = difference(now, self._last)
        self._last = now
        return done


if __name__ == "__main__":
    import sys

    print(json.dumps(snapshot(int(sys.argv[1]) if len(sys.argv) > 1 else None), indent=2))
