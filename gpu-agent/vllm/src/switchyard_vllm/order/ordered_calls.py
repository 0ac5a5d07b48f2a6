"""Calls that wait for a seat, in order. A sorted list: inserting and removing cost a search and a move of pointers, which
for the few thousand calls that can wait on an engine is cheaper than a heap whose items move about. Those that hold their
KV are in a list of their own besides, so that the best of them is found without a scan.
"""

from bisect import bisect_left, insort
from collections import Counter

from .call_state import CallState, QueueKey
from .policies.levels import LEVELS_MAX


def level_of(call: CallState) -> int:
    """A policy that ranks by an index has no levels: what is above the last counts there."""
    return int(min(LEVELS_MAX - 1, max(0, call.place.rank)))


Item = tuple[QueueKey, CallState]


class OrderedCalls:
    def __init__(self) -> None:
        self._items: list[Item] = []
        #: Of them, those that hold their KV.
        self._holding: list[Item] = []

    def __len__(self) -> int:
        return len(self._items)

    def first(self, calls_max: int) -> list[CallState]:
        return [call for _, call in self._items[:calls_max]]

    def first_holding(self, calls_max: int) -> list[CallState]:
        """As `first`, of the calls that hold their KV."""
        return [call for _, call in self._holding[:calls_max]]

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

    def peek_holding(self) -> CallState | None:
        """The best of the calls that hold their KV."""
        return self._holding[0][1] if self._holding else None

    def push(self, call: CallState) -> None:
        assert call.queue_key is None, "a call waits once"
        call.queue_key = call.order_key
        # Keys are unique, so calls are never compared.
        insort(self._items, (call.queue_key, call))
        if call.holds_kv:
            insort(self._holding, (call.queue_key, call))

    def remove(self, call: CallState) -> None:
        _take(self._items, call)
        if call.holds_kv:
            _take(self._holding, call)
        call.queue_key = None

    def set_holds_kv(self, call: CallState, holds_kv: bool) -> None:
        """The KV of a call that waits here came to the device, or left it."""
        self.remove(call)
        call.holds_kv = holds_kv
        self.push(call)

    def update(self, call: CallState) -> None:
        """The call's rank or sequence changed."""
        self.remove(call)
        self.push(call)


def _take(items: list[Item], call: CallState) -> None:
    assert call.queue_key is not None, "a call leaves the queue that it is in"
    index = bisect_left(items, (call.queue_key,))
    assert items[index][1] is call
    del items[index]
