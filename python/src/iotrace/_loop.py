"""The marks of a training loop, as frameworks tell of it."""

from . import mark, pop, push

# From the outside in: what a callback begins.
_ORDER = ("epoch", "validation", "step")


class Loop:
    """Ranges that are open. A framework may leave out the end of one: that of a step which an exception or an early stop
    interrupted. Whatever is within a range ends with it."""

    def __init__(self):
        self._open = []

    def begin(self, name):
        """Begins a range; one of the same or of an inner kind that is still open has ended."""
        place = _ORDER.index(name)
        while self._open and _ORDER.index(self._open[-1]) >= place:
            self._pop()
        push(name)
        self._open.append(name)

    def end(self, name):
        """Ends a range and those within it; nothing if it is not open."""
        while name in self._open:
            self._pop()

    def end_all(self):
        """Ends what is open."""
        while self._open:
            self._pop()

    def saved(self):
        """Marks that a checkpoint was saved."""
        mark("save")

    def _pop(self):
        self._open.pop()
        pop()
