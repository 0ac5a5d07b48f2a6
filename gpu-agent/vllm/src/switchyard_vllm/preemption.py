"""Takes running calls out, so that those that have seats can run: before vLLM's own `schedule`, which then admits them.

Stock vLLM preempts a running call only when another running one finds no block, and never for a call that waits. Nor does a
long prefill ever leave tokens to a better call that waits: while one does, prefills get smaller chunks (step_tokens.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .admission import Admission, SwapOfCalls, is_ending
from .kv_hold import KvHold
from .open_call import OpenCall
from .order.call_state import CallState
from .order.program_order import ProgramOrder
from .prefill_limit import PrefillLimit
from .seat_limit import SeatLimit
from .step_tokens import StepTokens
from .tool_contexts import ToolContexts
from .victims import Runner, memory_victims, seat_victims


class Preemption:
    def __init__(
        self,
        scheduler: Any,
        order: ProgramOrder,
        calls: Mapping[str, OpenCall],
        limit: PrefillLimit,
        seat_limit: SeatLimit,
        seats: int,
        swap: SwapOfCalls | None = None,
        tools: ToolContexts | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.order = order
        self.calls = calls
        self._admission = Admission(scheduler, swap, tools)
        #: Whose pins give way to calls that wait.
        self._tools = tools
        self._limit = limit
        self._seat_limit = seat_limit
        self._seats = seats
        # Counts since start.
        self.for_seats = 0
        self.for_memory = 0
        #: vLLM's own, when memory ran out.
        self.by_vllm = 0
        self._ours = False
        #: Preempted calls that have not been admitted again.
        self._out: set[str] = set()
        #: The call for which prefills got smaller chunks in the last step that vLLM planned, and which it did not admit.
        self._limited_for: str | None = None

    def seen(self, open_call: OpenCall) -> None:
        """A call is being preempted, by us or by vLLM."""
        self.by_vllm += not self._ours
        self._out.add(open_call.request.request_id)

    def planned(self, scheduled: Mapping[str, int]) -> None:
        """vLLM has planned a step. A call that came back in it settles with its next token.

        Tokens of steps before its preemption have all arrived by then: vLLM admits no call before.
        """
        if self._limited_for in scheduled:
            self._limited_for = None
        if not self._out:
            return
        for lease in self._out.intersection(scheduled):
            open_call = self.calls.get(lease)
            if open_call is not None:
                open_call.output_tokens_at_admission = open_call.request.num_output_tokens
            self._out.discard(lease)

    def ended(self, lease: str) -> None:
        self._out.discard(lease)

    def make_way(
        self, seated: list[CallState], now_us: int, hold: KvHold | None = None, *, throttled: bool = False
    ) -> None:
        """Preempts for calls that are seated and wait, and limits prefills that would take all tokens from them.

        `hold`: whose contexts calls that wait leave in place.
        """
        scheduler = self.scheduler
        if not scheduler.waiting and not scheduler.kv_holding_waiting:
            return
        running = {request.request_id for request in scheduler.running}
        held_back = self._admission.holds_prompts_back(throttled)
        wanting = [state for state in seated if state.call.lease not in running and self._admissible(state, held_back)]
        startable = len(wanting) if hold is None else hold.startable(wanting, now_us)
        if startable < len(wanting):
            wanting = wanting[:startable]
            self._preempt_for(wanting, now_us)
            self._seat_limit.start_at_most(startable)
        else:
            self._preempt_for(wanting, now_us)

    def _preempt_for(self, wanting: list[CallState], now_us: int) -> None:
        scheduler = self.scheduler
        if not wanting:
            return
        tokens = None
        if any(request.is_prefill_chunk for request in scheduler.running):
            tokens = StepTokens(scheduler, self.calls, self._admission, self._limit)
        # Else: calls that only decode leave tokens for all seats, since vLLM demands a budget of one a seat.
        entering, out = self._free_seats(wanting, tokens)
        # Several kinds of layers share blocks in ways that vLLM alone knows: there memory and chunks are left to it.
        if not entering or len(scheduler.kv_cache_config.kv_cache_groups) != 1:
            return
        has_memory, out_for_memory = self._free_memory(entering[0], now_us)
        if has_memory and tokens is not None:
            self._limit_prefills(entering, tokens.chunk_limit(entering, out | out_for_memory))

    def _admissible(self, state: CallState, held_back: bool) -> bool:
        request = self.calls[state.call.lease].request
        if held_back and request.num_computed_tokens < request.num_tokens - 1:
            return False
        return self._admission.admissible(request)

    def _free_seats(self, wanting: list[CallState], tokens: StepTokens | None) -> tuple[list[CallState], set[str]]:
        """Takes seats from calls that lost theirs, for as many of `wanting` as then get tokens too.

        Returns those that enter, and who went.
        """
        scheduler = self.scheduler
        free_seats = self._seats - len(scheduler.running) - scheduler.num_waiting_for_streaming_input
        seats_needed = len(wanting) - free_seats
        victims = seat_victims(self._runners(seated=False), seats_needed) if seats_needed > 0 else []
        entering = wanting[: max(0, free_seats + len(victims))]
        while tokens is not None and entering:
            served = tokens.served(entering, _leases(victims))
            if served == len(entering):
                break
            entering = entering[:served]
            victims = victims[: max(0, len(entering) - free_seats)]
        self.for_seats += len(victims)
        self._take_out(victims)
        return entering, _leases(victims)

    def _free_memory(self, head: CallState, now_us: int) -> tuple[bool, set[str]]:
        """Whether the best call that waits finds its blocks once those that must go are out, and who went."""
        request = self.calls[head.call.lease].request
        missing_blocks = self._admission.blocks_missing(request)
        if missing_blocks <= 0:
            self._end_pins(request, now_us)
            return True, set()
        preemptions_max = self.order.config.preemptions_max
        victims = memory_victims(head, missing_blocks, self._runners(), self._own_blocks, preemptions_max)
        self.for_memory += len(victims)
        self._take_out(victims)
        if victims:
            self._end_pins(request, now_us)
        return len(victims) > 0, _leases(victims)

    def _end_pins(self, request: Any, now_us: int) -> None:
        """Pins give way to a call that is about to be admitted."""
        if self._tools is not None:
            self._tools.make_way(self._admission.blocks_needed(request), now_us, request)

    def _limit_prefills(self, entering: list[CallState], tokens_max: int | None) -> None:
        """Lowers vLLM's limit on prefills for one step.

        Never twice running for the same call: if vLLM did not admit it then, for a reason of its own, prefills would be slow
        for nothing.
        """
        head = entering[0].call.lease
        in_vain = head == self._limited_for
        self._limited_for = None
        if tokens_max is not None and not in_vain:
            self._limit.lower(tokens_max)
            self._limited_for = head

    def _runners(self, *, seated: bool = True) -> list[Runner]:
        """Running calls that may be preempted; without the seated ones if so told."""
        runners: list[Runner] = []
        for request in self.scheduler.running:
            open_call = self.calls.get(request.request_id)
            if open_call is None or (open_call.state.seated and not seated) or not _preemptible(request):
                continue
            settled = request.num_output_tokens > open_call.output_tokens_at_admission
            runners.append(Runner(open_call.state, request.num_computed_tokens, settled))
        return runners

    def _take_out(self, victims: list[Runner]) -> None:
        scheduler = self.scheduler
        self._ours = True
        try:
            for victim in victims:
                request = self.calls[victim.state.call.lease].request
                # As vLLM does in `reset_prefix_cache`: out of `running`, then `_preempt_request`, which queues it.
                scheduler.running.remove(request)
                scheduler._preempt_request(request, time.monotonic())
                # Model runner V1 is sent a call's tokens anew only if it was not in the step before: it may be admitted
                # again in this one.
                scheduler.prev_step_scheduled_req_ids.discard(request.request_id)
        finally:
            self._ours = False

    def _own_blocks(self, runner: Runner) -> int:
        """Blocks that its preemption frees: those that no other call shares."""
        groups = self.scheduler.kv_cache_manager.get_blocks(runner.state.call.lease).blocks
        return sum(1 for group in groups for block in group if block.ref_cnt == 1 and not block.is_null)


def _preemptible(request: Any) -> bool:
    """Not a session whose input is streamed, nor a call whose last token is under way: its seat and memory are free anyway."""
    return not request.resumable and not is_ending(request)


def _leases(victims: list[Runner]) -> set[str]:
    return {victim.state.call.lease for victim in victims}
