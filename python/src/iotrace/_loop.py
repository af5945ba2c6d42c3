"""The marks of a training loop, from the calls of a framework."""

import threading

from . import _begin, _end, mark

# From the outside in: what a callback begins.
_ORDER = ("epoch", "validation", "step")


class Loop:
    """Ranges that are open. A framework may leave out the end of one: that of a step which an exception or an early stop
    interrupted. Whatever is within a range ends with it."""

    # Of each thread, the loop that began a range last.
    _last = threading.local()

    def __init__(self):
        self._open = []

    def begin(self, name):
        """Begins a range; one of the same or of an inner kind that is still open has ended. So have those of another training
        in this thread: not every framework calls a callback if a training fails."""
        last = getattr(self._last, "loop", self)
        if last is not self:
            last.end_all()
        self._last.loop = self
        place = _ORDER.index(name)
        while self._open and _ORDER.index(self._open[-1][0]) >= place:
            self._end_innermost()
        self._open.append((name, _begin(name)))

    def end(self, name):
        """Ends a range and those within it; nothing if it is not open."""
        while any(name == open_name for open_name, _ in self._open):
            self._end_innermost()

    def end_all(self):
        """Ends what is open."""
        while self._open:
            self._end_innermost()

    def saved(self):
        """Marks that a checkpoint was saved."""
        mark("save")

    def _end_innermost(self):
        _end(self._open.pop()[1])
