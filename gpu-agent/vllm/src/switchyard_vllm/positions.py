"""Where open calls are in the order, for an agent that asks while a person looks (side_channel.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .open_call import OpenCall
from .order.program_order import ProgramOrder

#: Lease, whether it waits, time in which it was not scheduled, calls of its tenant before it, by what it is ordered.
Row = tuple[str, bool, int, int, str]


def positions_of(leases: Sequence[str], calls: Iterable[OpenCall], order: ProgramOrder, now_us: int) -> list[Row]:
    """Of a lease with several calls (choices), that of the first in order. Leases that are not open are left out."""
    asked = set(leases)
    first: dict[str, OpenCall] = {}
    for call in calls:
        lease = call.identity.lease
        if lease is None or lease not in asked:
            continue
        if lease not in first or call.state.runs_before(first[lease].state):
            first[lease] = call
    places = order.positions(call.state for call in first.values())
    rows: list[Row] = []
    for (lease, call), (before, words) in zip(first.items(), places, strict=True):
        waited_us = max(0, now_us - call.state.arrived_us - call.state.service_wall_us)
        rows.append((lease, call.request.status.name != "RUNNING", waited_us, before, words))
    return rows
