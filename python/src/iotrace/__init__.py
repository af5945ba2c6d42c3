"""Marks that iotrace sees, from Python, by nothing but its standard library.

    import iotrace

    for batch in loader:
        with iotrace.range("step"):
            train(batch)
    iotrace.mark("validated")

The library is libiotrace-marker.so (see iotrace.c): the one that the variable IOTRACE_MARKER names, the one next to this
file, or the one that the loader finds. Without it the marks do nothing.
"""

import contextlib
import ctypes
import os
import threading

_NAME = "libiotrace-marker.so"


def _load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
    for place in (os.environ.get("IOTRACE_MARKER"), beside, _NAME):
        if place:
            with contextlib.suppress(OSError):
                library = ctypes.CDLL(place)
                library.iotrace_range_push.argtypes = [ctypes.c_char_p]
                library.iotrace_mark.argtypes = [ctypes.c_char_p]
                return library
    return None


_library = _load()


class _Thread(threading.local):
    def __init__(self):
        self.ranges = []  # that are open, from the outside in: an object for each


_thread = _Thread()


def _begin(name):
    """Begins a range of this thread, and returns the object for `_end`."""
    place = object()
    _thread.ranges.append(place)
    if _library:
        _library.iotrace_range_push(name.encode())
    return place


def _end(place):
    """Ends a range of this thread, and those within it that are still open; nothing if it has ended."""
    while place in _thread.ranges:
        pop()


def push(name):
    """Begins a range of this thread."""
    _begin(name)


def pop():
    """Ends the innermost range of this thread."""
    if _thread.ranges:
        _thread.ranges.pop()
    if _library:
        _library.iotrace_range_pop()


def mark(name):
    """Marks a moment."""
    if _library:
        _library.iotrace_mark(name.encode())


@contextlib.contextmanager
def range(name):
    """A range for a `with` block. Ranges that began within it end with it: an exception may have left them open."""
    place = _begin(name)
    try:
        yield
    finally:
        _end(place)
