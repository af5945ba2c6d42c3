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


def push(name):
    """Begins a range of this thread."""
    if _library:
        _library.iotrace_range_push(name.encode())


def pop():
    """Ends the innermost range of this thread."""
    if _library:
        _library.iotrace_range_pop()


def mark(name):
    """Marks a moment."""
    if _library:
        _library.iotrace_mark(name.encode())


@contextlib.contextmanager
def range(name):
    """A range for a `with` block."""
    push(name)
    try:
        yield
    finally:
        pop()
