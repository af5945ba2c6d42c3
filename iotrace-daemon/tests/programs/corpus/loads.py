"""Programs that load what was saved before, by them or by others."""

import mmap
import os
import subprocess
import sys

from truth import main, note, read, train, write


def resumed(truth):
    train()
    with truth.load():
        read("out/step-1.ckpt")
    train()


def loaded_then_saved_over(truth):
    train()
    with truth.load():
        read("out/model.ckpt")
    train(0.2)
    with truth.save():
        write("out/model.ckpt", 5, 0.1)


def resumed_and_saved(truth):
    """Each save has names and sizes of what was loaded."""
    with truth.load():
        for name in PARTS:
            read(f"out/checkpoint-100/{name}")
    for step in (200, 300):
        train()
        with truth.save():
            for name in PARTS:
                write(f"out/checkpoint-{step}/{name}")


def resumed_and_saved_over(truth):
    with truth.load():
        read("out/last.ckpt")
    for _ in range(3):
        train(0.2)
        with truth.save():
            write("out/last.ckpt.tmp", 4, 0.02)
            os.rename("out/last.ckpt.tmp", "out/last.ckpt")


def newest_of_several(truth):
    """Looks at what each one is."""
    for step in (1, 2):
        read(f"out/{step}/_CHECKPOINT_METADATA")
    with truth.load():
        read("out/2/_CHECKPOINT_METADATA")
        read(f"out/2/state/d/{7:032x}")


def shards(truth):
    train()
    with truth.load():
        for shard in (1, 2, 3):
            read(f"model/model-0000{shard}-of-00003.safetensors")


MAP = """
import mmap
with open("{}", "rb") as file:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        sum(memory[at] for at in range(0, len(memory), 4096))
"""


def mapped(truth):
    train()
    with truth.load():
        exec(MAP.format("model/model.safetensors"), {})


def mapped_back(truth):
    """Goes on with the best model of the same run."""
    for step in (1, 2):
        with truth.save():
            write(f"out/checkpoint-{step}/model.safetensors", 4, 0.02)
        train()
    exec(MAP.format("out/checkpoint-1/model.safetensors"), {})


def mapped_by_another(truth):
    with truth.save():
        write("out/checkpoint-1/model.safetensors", 4, 0.02)
    train()
    with truth.load():
        subprocess.run([sys.executable, "-c", MAP.format("out/checkpoint-1/model.safetensors")], check=True)
    truth.loads[0] = None  # its interpreter's start is no part of it


def loaded_again_and_again(truth):
    """A model of any name, after each save and several times after the last one."""
    for _ in range(3):
        with truth.save():
            write("out/weights_a.bin", 4, 0.02)
        train(0.2)
        read("out/weights_a.bin")
        train(0.2)
    with truth.save():
        write("best/weights_b.bin", 4, 0.02)
    for _ in range(4):
        train(0.2)
        exec(MAP.format("best/weights_b.bin"), {})
        read("best/weights_b.bin")


def evaluated_by_another(truth):
    with truth.save():
        write("out/step-1.ckpt", 4, 0.02)
    train()
    with truth.load():
        subprocess.run([sys.executable, "-c", "open('out/step-1.ckpt', 'rb').read()"], check=True)
    truth.loads[0] = None  # its interpreter's start is no part of it


def evaluated_twice_by_others(truth):
    for step in (1, 2):
        with truth.save():
            write(f"out/step-{step}.ckpt", 4, 0.02)
        train()
        with truth.load():
            subprocess.run([sys.executable, "-c", f"open('out/step-{step}.ckpt', 'rb').read()"], check=True)
    truth.loads = [None] * 2  # their interpreters' start is no part of them


def loaded_by_ranks(truth):
    """Each rank begins when the one before has loaded."""
    with truth.load():
        for rank in range(3):
            command = [sys.executable, "-c", "open('model/model.safetensors', 'rb').read()"]
            subprocess.run(command, check=True, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"})
    truth.loads = [None]  # their interpreters' start is no part of it


def loaded_by_an_earlier_fork(truth):
    """A rank that was there before the first one saved."""
    ready, saved = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        read("out/step-1.ckpt")
        os._exit(0)
    with truth.save():
        write("out/step-1.ckpt", 4, 0.02)
    train(0.2)
    with truth.load():
        os.write(saved, b"x")
        os.waitpid(child, 0)


def handed_to_tools(truth):
    for step in (1, 2):
        with truth.save():
            write(f"out/step-{step}.ckpt", 4, 0.02)
        for command in (["sha256sum"], ["tar", "-cf", "backup.tar"], ["wc"]):
            subprocess.run([*command, f"out/step-{step}.ckpt"], check=True, stdout=subprocess.DEVNULL)
        train()


def saved_over_by_another(truth):
    for _ in range(3):
        with truth.save():
            subprocess.run([sys.executable, "-c", "open('out/model.ckpt', 'wb').write(b'w' * (1 << 20))"], check=True)
        train(0.2)
    truth.saves = [None] * 3  # their interpreters' start is no part of them


def config_only(truth):
    for _ in range(3):
        read("model/config.json")


SHARDS = [f"model/model-0000{shard}-of-00003.safetensors" for shard in (1, 2, 3)]
PARTS = ("model.safetensors", "optimizer.pt", "scheduler.pt")
BEFORE = {
    "newest_of_several": [
        lambda: [note(f"out/{step}/_CHECKPOINT_METADATA") for step in (1, 2)],
        lambda: [write(f"out/{step}/state/d/{7:032x}") for step in (1, 2)],
    ],
    "resumed_and_saved": [lambda: [write(f"out/checkpoint-100/{name}") for name in PARTS]],
    "resumed_and_saved_over": [lambda: write("out/last.ckpt")],
    "resumed": [lambda: write("out/step-1.ckpt")],
    "loaded_then_saved_over": [lambda: write("out/model.ckpt")],
    "saved_over_by_another": [lambda: write("out/model.ckpt")],
    "shards": [lambda: [write(path) for path in SHARDS]],
    "loaded_by_ranks": [lambda: write("model/model.safetensors")],
    "mapped": [lambda: write("model/model.safetensors")],
    "config_only": [lambda: note("model/config.json")],
}

if __name__ == "__main__":
    main({name: value for name, value in globals().items() if callable(value)}, BEFORE)
