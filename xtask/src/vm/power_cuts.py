#!/usr/bin/python3
"""Whether saved checkpoints survive power cuts, and whether iotrace says so.

    power_cuts.py                        all checks, as `init.sh` speaks of tests
    power_cuts.py list                   their names
    power_cuts.py check FILESYSTEM WAY   one of them
    power_cuts.py save WAY DIRECTORY     saves two checkpoints with torch, the second one in this way

A save runs under `iotrace record` on a filesystem whose disk is logged by dm-log-writes. A write is in the log when a flush
has made it durable, so the log up to an entry is the disk after a power cut. The log is replayed to each flush of the save
and to its end; each time the filesystem is mounted, and torch loads what is there. The save survives if

- there is always a whole checkpoint, the one before or the new one, and
- from the end of the save on there is the new one.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import time

BEFORE, NEW = 1, 2
# Way: what iotrace says is missing. A power cut shows it on each of the filesystems.
WAYS = {
    "all_synced": [],
    "file_synced_again": [],
    "new_name": [],
    "synced_as_a_whole": [],
    "in_place": ["file_sync", "new_file"],
    "in_place_synced": ["new_file"],
    "renamed_only": ["file_sync", "directory_sync"],
    "no_directory_sync": ["directory_sync"],
}
# Name: options of mkfs, of mount, and bytes of the disk. By itself, ext4 writes the data of a file that replaces another:
# other filesystems do not, and `noauto_da_alloc` is as they are.
FILESYSTEMS = {
    "ext4": (["-q", "-E", "nodiscard"], "noauto_da_alloc", 96 << 20),
    "xfs": (["-q", "-K"], "defaults", 320 << 20),
}
# Seconds in which the filesystems write by themselves that a file was emptied.
PAUSE = 8
# How often they do, seconds. A save whose rename is synced by nobody must not be helped so.
OFTEN, SELDOM = 1, 72
SYNC_XFS = pathlib.Path("/proc/sys/fs/xfs/xfssyncd_centisecs")
WORK = pathlib.Path("/var/tmp/cuts")
DEVICE = "cuts"
WITHOUT_UDEV = ["--noudevrules", "--noudevsync"]
SECTOR = 512
# Of dm-log-writes: the kernel's drivers/md/dm-log-writes.c.
SUPER, ENTRY = struct.Struct("<QQQI"), struct.Struct("<QQQQ")
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


def run(*command):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}")
    return done.stdout.strip()


def tensors(step):
    import torch

    torch.manual_seed(step)
    return torch.randn(1 << 18)


def save(way, top):
    import torch

    name, temporary = os.path.join(top, "model.pt"), os.path.join(top, "model.pt.tmp")

    def write(path, synced, step=NEW, pause=0):
        with open(path, "wb") as file:
            # The time that a large save takes.
            time.sleep(pause)
            torch.save({"step": step, "weights": tensors(step)}, file)
            if synced:
                file.flush()
                os.fsync(file.fileno())

    def sync(path):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    write(os.path.join(top, "model-1.pt") if way == "new_name" else name, True, BEFORE)
    mark("start")
    if way == "all_synced":
        write(temporary, True)
        os.rename(temporary, name)
        sync(top)
    elif way == "file_synced_again":
        write(temporary, True)
        os.rename(temporary, name)
        sync(name)
    elif way == "new_name":
        write(os.path.join(top, "model-2.pt"), True)
    elif way == "synced_as_a_whole":
        write(temporary, False)
        os.sync()
        os.rename(temporary, name)
        sync(top)
    elif way == "in_place":
        write(name, False, pause=PAUSE)
    elif way == "in_place_synced":
        write(name, True, pause=PAUSE)
    elif way == "renamed_only":
        write(temporary, False)
        os.rename(temporary, name)
    elif way == "no_directory_sync":
        write(temporary, True)
        os.rename(temporary, name)
    mark("saved")


def mark(name):
    run("dmsetup", "message", DEVICE, "0", "mark", name)


def loaded(top):
    """The steps of the checkpoints that torch loads whole."""
    import torch

    steps = set()
    for path in top.glob("*.pt"):
        try:
            state = torch.load(path)
            if torch.equal(state["weights"], tensors(state["step"])):
                steps.add(state["step"])
        except Exception as error:
            print(f"{path.name}: {error!r}"[:200])
    return steps


def attach(path):
    return run("losetup", "--find", "--show", path)


def record(filesystem, way):
    """Saves on a logged disk; what iotrace says of the save."""
    mkfs, options, size = FILESYSTEMS[filesystem]
    data, log, top = WORK / "data", WORK / "log", WORK / "top"
    for path, length in [(data, size), (log, 2 * size)]:
        with open(path, "wb") as file:
            file.truncate(length)
    top.mkdir()
    devices = [attach(data), attach(log)]
    table = f"0 {size // SECTOR} log-writes {' '.join(devices)}"
    run("dmsetup", "create", *WITHOUT_UDEV, DEVICE, "--table", table)
    disk = f"/dev/dm-{run('dmsetup', 'info', '-c', '--noheadings', '-o', 'minor', DEVICE)}"
    try:
        run(f"mkfs.{filesystem}", *mkfs, disk)
        interval = SELDOM if way == "no_directory_sync" else OFTEN
        SYNC_XFS.write_text(str(100 * interval))
        if filesystem == "ext4":
            options += f",commit={interval}"
        run("mount", "-o", options, disk, top)
        try:
            own = [sys.executable, __file__, "save", way, top]
            run("iotrace", "record", "--standalone", "--output", WORK / "recording", "--", *own)
        finally:
            run("umount", top)
    finally:
        run("dmsetup", "remove", *WITHOUT_UDEV, DEVICE)
        for device in devices:
            run("losetup", "--detach", device)
    report = json.loads(run("iotrace", "report", "--format", "json", WORK / "recording"))
    before, saved = report["checkpoints"]
    assert before["durable"], before
    return saved


def entries(log):
    """Sector, data, flags and mark of each entry."""
    magic, version, count, size = SUPER.unpack(log.read(SUPER.size))
    if (magic, version, size) != (MAGIC, 1, SECTOR):
        raise RuntimeError(f"the log has magic {magic:x}, version {version}, sectors of {size} bytes")
    at = SECTOR
    for _ in range(count):
        log.seek(at)
        sector, sectors, flags, length = ENTRY.unpack(log.read(ENTRY.size))
        name = log.read(length).decode() if flags & MARK else None
        at += SECTOR
        log.seek(at)
        data = b"" if flags & DISCARD else log.read(sectors * SECTOR)
        at += len(data)
        yield sector, data, flags, name


def states(filesystem):
    """Whether the save has ended, and what torch loads, for each power cut."""
    _, options, size = FILESYSTEMS[filesystem]
    disk, copy, top = WORK / "disk", WORK / "copy", WORK / "cut"
    top.mkdir()
    is_begun, is_ended = False, False
    with open(WORK / "log", "rb") as log, open(disk, "wb") as file:
        file.truncate(size)
        for sector, data, flags, name in entries(log):
            file.seek(sector * SECTOR)
            file.write(data)
            is_begun |= name == "start"
            is_ended |= name == "saved"
            if not is_begun or not flags & (FLUSH | FUA | MARK):
                continue
            file.flush()
            run("cp", "--sparse=always", disk, copy)
            run("mount", "-o", f"loop,{options}", copy, top)
            try:
                yield is_ended, loaded(top)
            finally:
                run("umount", top)


def check(filesystem, way):
    run("rm", "-rf", WORK)
    WORK.mkdir()
    saved = record(filesystem, way)
    missing = WAYS[way]
    assert saved["missing"] == missing, f"missing: {saved['missing']}, expected {missing}"
    assert saved["durable"] == (not missing), f"durable: {saved['durable']}"
    cuts = list(states(filesystem))
    print("cuts:", cuts)
    assert cuts[0] == (False, {BEFORE}) and any(is_ended for is_ended, _ in cuts), "the marks are not in the log"
    lost = [cut for cut in cuts if not cut[1] or cut[0] and NEW not in cut[1]]
    print(f"measured {len(cuts)} power cuts, {len(lost)} with a loss")
    assert bool(lost) == bool(missing), "a power cut shows something else than iotrace says"


def main():
    with open("/dev/ttyS1", "w", buffering=1) as line:
        run("stty", "-F", "/dev/ttyS1", "raw", "-echo")
        say = lambda text: line.write(text + "\n")
        say(f"kernel {os.uname().release} {os.uname().version}")
        for module in sorted(pathlib.Path("/root/modules").iterdir()):
            run("insmod", module)
        for name in names():
            say(f"begin {name}")
            start, out = time.monotonic(), pathlib.Path("/run/out")
            with open(out, "w") as file:
                child = subprocess.run([sys.executable, __file__, "check", *name.split("-")], stdout=file, stderr=file)
            text = out.read_text().splitlines()
            for told in text if child.returncode else [told for told in text if told.startswith("measured ")]:
                say(told if told.startswith("measured ") else f"out {told}")
            result = "failed" if child.returncode else "ok"
            say(f"end {time.monotonic() - start:.0f} {result} {name}")
        say("finished")


def names():
    return [f"{filesystem}-{way}" for filesystem in FILESYSTEMS for way in WAYS]


if sys.argv[1:2] == ["save"]:
    save(*sys.argv[2:])
elif sys.argv[1:2] == ["check"]:
    check(*sys.argv[2:])
elif sys.argv[1:] == ["list"]:
    print("\n".join(names()))
else:
    main()
