"""How much of each call's prompt has its KV at hand, which the order ranks by.

For a running call that is what was computed of it. For one that waits it is the cached prefix that vLLM would give it, with
what was swapped out of it: looked up when it comes and after a preemption. What was swapped out is not on the device unless
its image has been brought back to wait there. Eviction tells of nothing, so the calls that wait first are looked up again now
and then. A lookup changes nothing in vLLM: it takes no reference, moves no block in the
order of eviction, and counts as no query of the prefix cache. It costs about half a microsecond a cached block.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from .admission import SwapOfCalls
from .order.call_state import CallState
from .order.program_order import ProgramOrder, StepCharge

#: How often calls that wait are looked up again.
INTERVAL_US = 100_000
#: Of them the first so many, and until so many cached blocks were found: half a millisecond.
WAITING_MAX = 16
BLOCKS_MAX = 1024


class Resident(NamedTuple):
    """Prompt tokens of a call whose KV is at hand, and those of them that are on the device."""

    tokens: int
    device_tokens: int


class Residency:
    def __init__(self, scheduler: Any, order: ProgramOrder, swap: SwapOfCalls | None = None) -> None:
        self._scheduler = scheduler
        self._swap = swap
        self._order = order
        self._due_us = 0
        #: Preempted since the last decision: their blocks are free, and may be given away in the same step.
        self._preempted: dict[str, CallState] = {}

    def resident(self, request: Any) -> Resident:
        """Of a call that does not run."""
        prompt_tokens = int(request.num_prompt_tokens)
        if request.num_computed_tokens > 0:
            # It waits with its KV, loaded from elsewhere.
            tokens = min(int(request.num_computed_tokens), prompt_tokens)
            return Resident(tokens, tokens)
        manager = self._scheduler.kv_cache_manager
        if manager.enable_kv_cache_events and getattr(request, "kv_cache_report_mode", "") == "full":
            # Here a lookup sends events.
            return Resident(0, 0)
        _, found_tokens, _ = manager.get_computed_blocks(request)
        cached_tokens = min(int(found_tokens), prompt_tokens)
        if self._swap is None:
            return Resident(cached_tokens, cached_tokens)
        tokens = min(int(self._swap.restorable_tokens(request, found_tokens)), prompt_tokens)
        return Resident(tokens, tokens if self._swap.staged(request) else cached_tokens)

    def preempted(self, state: CallState) -> None:
        self._preempted[state.call.lease] = state

    def computed(self, charges: Iterable[StepCharge], now_us: int) -> None:
        """A step has computed something of these calls."""
        for state, _ in charges:
            if state.holds_kv and state.resident_tokens == state.prompt_tokens:
                continue
            request = state.owner.request
            if request.status.name == "RUNNING":
                self._order.resident(state, request.num_computed_tokens, now_us)

    def before_decision(self, seated: Iterable[CallState], now_us: int) -> None:
        """`seated`: of the last decision."""
        if self._preempted:
            for state in self._preempted.values():
                if not state.ended:
                    self._look_up(state, now_us)
            self._preempted.clear()
        if now_us >= self._due_us:
            self._due_us = now_us + INTERVAL_US
            self._look_again(seated, now_us)

    def _look_again(self, seated: Iterable[CallState], now_us: int) -> None:
        scheduler = self._scheduler
        if not scheduler.waiting and not scheduler.kv_holding_waiting:
            return
        waiting = [state for state in seated if not state.ended and state.owner.request.status.name != "RUNNING"]
        if self._order.config.standby == "resident_first":
            # Those that seats go to between decisions.
            waiting += self._order.first_holding(WAITING_MAX // 2)
        waiting += self._order.first_waiting(WAITING_MAX)
        blocks = 0
        for state in islice(dict.fromkeys(waiting), WAITING_MAX):
            if blocks >= BLOCKS_MAX:
                return
            self._look_up(state, now_us)
            blocks += state.resident_tokens // scheduler.block_size

    def _look_up(self, state: CallState, now_us: int) -> None:
        request = state.owner.request
        if request.status.name != "RUNNING":
            tokens, device_tokens = self.resident(request)
            self._order.resident(state, tokens, now_us, device_tokens)
