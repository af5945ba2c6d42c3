# What the Python package marks.
import sys

sys.path.insert(0, sys.argv[1])
import iotrace
from iotrace._loop import Loop

told = []


class Library:
    iotrace_range_push = staticmethod(lambda name: told.append(name.decode()))
    iotrace_range_pop = staticmethod(lambda: told.append("pop"))
    iotrace_mark = staticmethod(lambda name: told.append("mark " + name.decode()))


def check(*expected):
    assert told == list(expected), (told, expected)
    told.clear()


assert iotrace._library is None, "there is no library here"
with iotrace.range("nobody sees this"):
    iotrace.mark("nor this")
iotrace._library = Library
with iotrace.range("a"):
    iotrace.mark("b")
check("a", "mark b", "pop")

# A range ends those within it, once; one that has ended by hand ends no other.
with iotrace.range("a"):
    with iotrace.range("b"):
        iotrace.push("c")
        iotrace.push("d")
        iotrace.pop()
    with iotrace.range("e"):
        iotrace.pop()
    check("a", "b", "c", "d", "pop", "pop", "pop", "e", "pop")
check("pop")

# A framework leaves out the end of a step.
loop = Loop()
for name in ("epoch", "step", "step", "validation"):
    loop.begin(name)
loop.saved()
loop.end("epoch")
loop.end("step")
check("epoch", "step", "pop", "step", "pop", "validation", "mark save", "pop", "pop")

# And that of a training that failed: a range around it ends it, or the next training in the thread, and never twice.
with iotrace.range("a"):
    loop.begin("epoch")
check("a", "epoch", "pop", "pop")
loop.begin("epoch")
check("epoch")
loop.begin("step")
other = Loop()
other.begin("epoch")
check("step", "pop", "pop", "epoch")
loop.end_all()
check()
other.end_all()
check("pop")
print("ok")
