"""Calls that wait for a seat, in order. A sorted list: inserting and removing cost a search and a move of pointers, which
for the few thousand calls that can wait on an engine is cheaper than a heap whose items move about.
"""

from bisect import bisect_left, insort
from collections import Counter

from .call_state import CallState, QueueKey
from .policies.levels import LEVELS_MAX


def level_of(call: CallState) -> int:
    """A policy that ranks by an index has no levels: what is above the last counts there."""
    return int(min(LEVELS_MAX - 1, max(0, call.place.rank)))


class OrderedCalls:
    def __init__(self) -> None:
        self._items: list[tuple[QueueKey, CallState]] = []

    def __len__(self) -> int:
        return len(self._items)

    def first(self, calls_max: int) -> list[CallState]:
        return [call for _, call in self._items[:calls_max]]

    def at(self, index: int) -> CallState:
        return self._items[index][1]

    def count_by_level(self, counts: Counter[int]) -> None:
        """Adds how many calls are at each level. Costs a search a level."""
        items = self._items
        begin = 0
        while begin < len(items):
            level = level_of(items[begin][1])
            end = len(items) if level == LEVELS_MAX - 1 else bisect_left(items, ((level + 1,),), begin)
            counts[level] += end - begin
            begin = end

    def peek(self) -> CallState | None:
        return self._items[0][1] if self._items else None

    def push(self, call: CallState) -> None:
        assert call.queue_key is None, "a call waits once"
        call.queue_key = call.order_key
        # Keys are unique, so calls are never compared.
        insort(self._items, (call.queue_key, call))

    def remove(self, call: CallState) -> None:
        assert call.queue_key is not None, "a call leaves the queue that it is in"
        index = bisect_left(self._items, (call.queue_key,))
        assert self._items[index][1] is call
        del self._items[index]
        call.queue_key = None

    def update(self, call: CallState) -> None:
        """The call's rank or sequence changed."""
        self.remove(call)
        self.push(call)
