"""Writes the order into vLLM's priorities, for what has changed since the last step.

vLLM compares calls that run with each other, when it chooses which to preempt, and calls that wait with each other. It does
nothing with a priority but compare it, so ours are tuples:

    (0, position)     the *front*: calls with seats, in their order
    (1, queue key)    calls without: rank, the program's sequence, the call's sequence

A key changes only when its call moves, so a step costs nothing for the thousands that wait where they were. Between tenants
keys say nothing: seats are dealt to one after another. So where there are several tenants, the first calls that wait are part
of the front. vLLM comes to those behind them only if it must pass so many over, and then takes them by rank.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from vllm.v1.request import RequestStatus

from .open_call import OpenCall
from .order.call_state import CallState
from .order.program_order import ProgramOrder
from .sorted_queue import SortedRequestQueue

#: Calls without seats in the front, where there are several tenants.
WAITING_MAX = 64


class Priorities:
    def __init__(self, scheduler: Any, order: ProgramOrder, seats: int) -> None:
        """Replaces vLLM's queues, which are still empty."""
        self._scheduler = scheduler
        self._order = order
        self._queues = (SortedRequestQueue(), SortedRequestQueue())
        scheduler.waiting, scheduler.kv_holding_waiting = self._queues
        self._positions = [(0, position) for position in range(seats + WAITING_MAX)]
        self._front: list[CallState] = []

    def arrived(self, request: Any, state: CallState) -> None:
        """vLLM does not have the request yet."""
        request.priority = _behind(state)

    def write(self, seated: list[CallState]) -> bool:
        """`seated`: of the decision just taken. Returns whether calls that run may have changed places."""
        moved = self._order.take_moved()
        dealt = self._order.first_waiting(WAITING_MAX) if self._order.tenants > 1 else []
        before, front = self._front, [*seated, *dealt]
        if front == before:
            # Most steps: at most, calls behind the front changed places among each other.
            self._place((), _behind_front(moved, dealt))
            return False
        self._front = front
        waiting = [state for state in front if not _runs(state)]
        self._place(_displaced(before, waiting), _behind_front((*before, *moved), dealt), front)
        return True

    def _place(
        self, displaced: Iterable[CallState], behind: Collection[CallState], front: Iterable[CallState] = ()
    ) -> None:
        """`displaced`: of the front, those that vLLM's queues have at another place than the others of it allow."""
        # Out of the queues under the old priorities, and back under the others.
        taken = [
            (queue, state.owner.request)
            for state in (*displaced, *behind)
            if not _runs(state)
            for queue in self._queues
            if queue.take(state.owner.request)
        ]
        for state in behind:
            state.owner.request.priority = _behind(state)
        for position, state in zip(self._positions, front, strict=False):
            state.owner.request.priority = position
        for queue, request in taken:
            queue.add_request(request)

    def restore(self, calls: Iterable[OpenCall]) -> None:
        """Gives every request the priority that it came with."""
        for open_call in calls:
            open_call.request.priority = open_call.stock_priority
        for queue in self._queues:
            queue.sort()


def _behind(state: CallState) -> tuple[int, Any]:
    return (1, state.queue_key)


def _behind_front(calls: Iterable[CallState], dealt: Iterable[CallState]) -> Collection[CallState]:
    """Of `calls`, those that wait for seats behind the front."""
    in_front = set(dealt)
    return {state for state in calls if state.queue_key is not None and state not in in_front}


def _displaced(before: list[CallState], waiting: list[CallState]) -> list[CallState]:
    """Of the front's calls that wait, those that have changed places among each other. A position alone is no place."""
    if not waiting:
        return []
    seen = set(before)
    stay = dict.fromkeys(state for state in waiting if state in seen)
    if [state for state in before if state in stay] != list(stay):
        return waiting
    return [state for state in waiting if state not in seen]


def _runs(state: CallState) -> bool:
    return state.owner.request.status is RequestStatus.RUNNING
