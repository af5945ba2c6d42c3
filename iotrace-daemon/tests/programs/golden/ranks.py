"""A launcher of two ranks, the second one first; each reads a shard, and so does a worker that it forks."""

import os, subprocess, sys
root, first = sys.argv[1], int(sys.argv[2])
def read(path, size):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, size):
        pass
    os.close(fd)
if len(sys.argv) > 3:
    shard = f"{root}/data/train/shard-{first}.tar"
    with open(shard, "wb") as file:
        file.write(b"x" * 100_000 * (first + 1))
    read(shard, 10_000)
    if os.fork() == 0:
        read(shard, 50_000)
        os._exit(0)
    os.wait()
    sys.exit()
os.makedirs(root + "/data/train", exist_ok=True)
for rank in (first + 1, first):
    # More than an event of the kernel side holds comes first, as where a site sets much.
    variables = dict(os.environ, SITE="x" * 60_000 * (rank % 2))
    variables.update(RANK=str(rank), WORLD_SIZE="4", SLURM_JOB_ID="4242")
    subprocess.run([sys.executable, "-IS", sys.argv[0], root, str(rank), "rank"], env=variables, check=True)
