"""What open calls have cost so far, by lease: cumulative sums, for the ledger of the agent.

A lease's sums are over all its calls (vLLM splits a request for several choices into one call each), ended ones included as
long as one is open. They never shrink, and never exceed the sums of the lease's records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .order.call_state import CallState


class Sums(NamedTuple):
    wall_us: int
    modelled_us: int
    computed_tokens: int
    sampled_tokens: int

    def plus(self, state: CallState) -> Sums:
        return Sums(
            self.wall_us + state.service_wall_us,
            self.modelled_us + state.service_modelled_us,
            self.computed_tokens + state.computed_tokens,
            self.sampled_tokens + state.output_tokens,
        )


NO_SUMS = Sums(0, 0, 0, 0)


class OpenCharges:
    """As many leases as there are open calls, at most."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        #: Of the ended calls of leases that have open ones.
        self._ended: dict[str, Sums] = {}

    def opened(self, lease: str) -> None:
        self._open[lease] = self._open.get(lease, 0) + 1

    def ended(self, lease: str, state: CallState) -> bool:
        """Whether it was the lease's last open call."""
        left = self._open[lease] - 1
        if left == 0:
            del self._open[lease]
            self._ended.pop(lease, None)
            return True
        self._open[lease] = left
        self._ended[lease] = self._ended.get(lease, NO_SUMS).plus(state)
        return False

    def sums(self, calls: Iterable[tuple[str | None, CallState]]) -> dict[str, Sums]:
        """By lease, of those that have cost something. A call without a lease is not accounted for."""
        sums = dict(self._ended)
        for lease, state in calls:
            if lease is not None and state.computed_tokens > 0:
                sums[lease] = sums.get(lease, NO_SUMS).plus(state)
        return sums
