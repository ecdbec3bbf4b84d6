"""How much more fits into a batch, by cost.

    sum       a batch costs what its requests cost together
    padded    it costs rows × the dearest, as a model pays it that pads its inputs to the longest

The batcher makes one for each batch that it is about to fill, and the lane's `buffer` takes requests as long as
they fit. A warm-up makes one to see which sizes `max_cost` allows.
"""


class Room:
    """The room in one batch that is being filled. Whoever comes first has room, whatever it costs."""

    __slots__ = ("_dearest", "_most", "_padded", "_rows", "_spent")

    def __init__(self, most: float, *, padded: bool = False) -> None:
        self._most = most
        self._padded = padded
        self._rows = 0
        self._spent = self._dearest = 0.0

    def takes(self, cost: float) -> bool:
        """Whether there is room for one more request that costs so much. If so it is counted."""
        rows, spent, dearest = self._rows + 1, self._spent + cost, max(self._dearest, cost)
        if rows > 1 and (rows * dearest if self._padded else spent) > self._most:
            return False
        self._rows, self._spent, self._dearest = rows, spent, dearest
        return True
