"""Takes running calls out, so that those that have seats can run: before vLLM's own `schedule`, which then admits them.

Stock vLLM preempts a running call only when another running one finds no block, and never for a call that waits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .core.call_state import CallState
from .core.program_scheduler import ProgramScheduler
from .open_call import OpenCall
from .victims import Runner, memory_victims, seat_victims

#: Names of vLLM's RequestStatus in which a waiting call may be admitted.
_ADMISSIBLE = ("WAITING", "PREEMPTED")


class Preemption:
    def __init__(self, scheduler: Any, core: ProgramScheduler, calls: Mapping[str, OpenCall], seats: int) -> None:
        self.scheduler = scheduler
        self.core = core
        self.calls = calls
        self._seats = seats
        # Counts since start.
        self.for_seats = 0
        self.for_memory = 0
        #: vLLM's own, when memory ran out.
        self.by_vllm = 0
        self._ours = False

    def seen(self) -> None:
        """A call is being preempted, by whomever."""
        self.by_vllm += not self._ours

    def make_way(self, seated: list[CallState]) -> None:
        """Preempts whoever must go for the calls that are seated and wait."""
        scheduler = self.scheduler
        if not scheduler.waiting and not scheduler.kv_holding_waiting:
            return
        running = {request.request_id for request in scheduler.running}
        wanting = [state for state in seated if state.call.lease not in running and self._admissible(state)]
        if not wanting:
            return
        occupied_seats = len(running) + scheduler.num_waiting_for_streaming_input
        seats_needed = occupied_seats + len(wanting) - self._seats
        if seats_needed > 0:
            victims = seat_victims(self._runners(seated=False), seats_needed)
            self.for_seats += len(victims)
            self._take_out(victims)
        if len(scheduler.kv_cache_config.kv_cache_groups) != 1:
            return
        # Several kinds of layers share blocks in ways that vLLM alone knows: there memory is left to it.
        head = wanting[0]
        missing_blocks = self._blocks_needed(head) - self._free_blocks()
        if missing_blocks > 0:
            preemptions_max = self.core.config.preemptions_max
            victims = memory_victims(head, missing_blocks, self._runners(), self._own_blocks, preemptions_max)
            self.for_memory += len(victims)
            self._take_out(victims)

    def _admissible(self, state: CallState) -> bool:
        """vLLM would admit it in this step if it had a seat and memory."""
        request = self.calls[state.call.lease].request
        stale = request.num_stale_output_tokens > 0 and not request.drop_stale_output
        return request.status.name in _ADMISSIBLE and not stale

    def _runners(self, *, seated: bool = True) -> list[Runner]:
        """Running calls that may be preempted; without the seated ones if so told."""
        runners: list[Runner] = []
        for request in self.scheduler.running:
            open_call = self.calls.get(request.request_id)
            if open_call is None or (open_call.state.seated and not seated) or not _preemptible(request):
                continue
            settled = request.num_output_tokens > open_call.output_tokens_before
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

    def _blocks_needed(self, state: CallState) -> int:
        """Blocks that the call takes from the pool when it is admitted, cached ones that nobody uses included."""
        request = self.calls[state.call.lease].request
        manager = self.scheduler.kv_cache_manager
        blocks = -(-request.num_tokens // self.scheduler.block_size) + manager.watermark_blocks
        if blocks <= self._free_blocks():
            return int(blocks)
        cached, _, _ = manager.get_computed_blocks(request)
        return int(blocks) - sum(1 for group in cached.blocks for block in group if block.ref_cnt > 0)

    def _free_blocks(self) -> int:
        """Free, or freed already and waiting for a step under way that may still write to them."""
        on_their_way = sum(len(blocks) for _, blocks in self.scheduler.deferred_frees)
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()) + on_their_way


def _preemptible(request: Any) -> bool:
    """Not a session whose input is streamed, nor a call whose last token is under way: its seat and memory are free anyway."""
    if request.resumable:
        return False
    placeholders = request.num_output_placeholders
    ending = placeholders > 0 and request.num_computed_tokens + 2 - placeholders >= (
        request.num_prompt_tokens + request.max_tokens
    )
    return not ending
