"""Reads and writes by two threads and a child, and calls that fail or move nothing."""

import os, sys, threading
root = sys.argv[1]
os.makedirs(root)
fd = os.open(root + "/shared.bin", os.O_CREAT | os.O_RDWR)
for index in range(50):
    os.pwrite(fd, b"x" * (100 + index), index * 1000)
def read(first):
    for index in range(first, 50, 2):
        os.pread(fd, 90, index * 1000)
threads = [threading.Thread(target=read, args=(first,)) for first in (0, 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.pread(fd, 10, 1 << 20)
only = os.open(root + "/shared.bin", os.O_WRONLY)
try:
    os.pread(only, 10, 0)
except OSError:
    pass
if os.fork() == 0:
    for index in range(7):
        os.pread(fd, 500, index)
    os._exit(0)
os.wait()
