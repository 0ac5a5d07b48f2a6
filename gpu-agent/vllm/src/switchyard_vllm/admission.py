"""What vLLM's next `schedule` would do with a waiting call: admit it or hold it back, and what it takes from the step.

The rules are those of vLLM's own admission loop (`Scheduler.schedule` and `_handle_blocked_waiting_request`).
"""

from __future__ import annotations

from typing import Any, Protocol

from .pinned_blocks import PinnedBlocks


class SwapOfCalls(Protocol):
    """What is asked of the KV swap about calls that wait (swap/connector.py)."""

    def ready(self, request: Any) -> bool: ...

    def restorable_tokens(self, request: Any, cached_tokens: int) -> int: ...

    def staged(self, request: Any) -> bool: ...


class PinsOfContexts(Protocol):
    """What is asked of pinned contexts about calls that wait (tool_contexts.py)."""

    def spare_blocks(self, request: Any) -> int: ...

    @property
    def pinned(self) -> PinnedBlocks: ...


class Admission:
    def __init__(self, scheduler: Any, swap: SwapOfCalls | None = None, pins: PinsOfContexts | None = None) -> None:
        self._scheduler = scheduler
        self._swap = swap
        self._pins = pins

    def admissible(self, request: Any) -> bool:
        """vLLM would admit it in the next step if it had a seat, memory and tokens."""
        status = request.status.name
        if status == "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR":
            return _grammar_is_ready(request)
        if status == "WAITING_FOR_REMOTE_KVS":
            return request.request_id in self._scheduler.finished_recving_kv_req_ids
        if status not in ("WAITING", "PREEMPTED"):
            return False
        # The outcome of a step before its preemption is still to come.
        if request.num_stale_output_tokens and not request.drop_stale_output:
            return False
        return self._swap is None or self._swap.ready(request)

    def blocks_missing(self, request: Any) -> int:
        """Blocks that the call lacks to be admitted; cached ones that no call uses are taken from the pool too.

        Blocks of pinned contexts count as free: pins give way.
        """
        free_blocks = self.free_blocks()
        if self._whole_blocks(request) <= free_blocks:
            return 0
        missing_blocks = self.blocks_needed(request) - free_blocks
        if missing_blocks > 0 and self._pins is not None:
            missing_blocks -= self._pins.spare_blocks(request)
        return missing_blocks

    def blocks_needed(self, request: Any) -> int:
        """Blocks that the call takes from the pool when it is admitted, cached ones that no call uses included."""
        manager = self._scheduler.kv_cache_manager
        whole_blocks = self._whole_blocks(request)
        if request.num_computed_tokens > 0:
            # It waits with its KV, loaded from elsewhere.
            held = manager.get_blocks(request.request_id)
            return whole_blocks - sum(len(group) for group in held.blocks)
        cached, _, _ = manager.get_computed_blocks(request)
        used_blocks = sum(1 for group in cached.blocks for block in group if block.ref_cnt > 0)
        if self._pins is not None:
            used_blocks += self._pins.pinned.own_blocks(request)
        return whole_blocks - used_blocks

    def _whole_blocks(self, request: Any) -> int:
        blocks = -(-request.num_tokens // self._scheduler.block_size)
        return int(blocks + self._scheduler.kv_cache_manager.watermark_blocks)

    def free_blocks(self) -> int:
        """Free, or freed already and waiting for a step under way that may still write to them."""
        scheduler = self._scheduler
        on_their_way = sum(len(blocks) for _, blocks in scheduler.deferred_frees)
        return int(scheduler.kv_cache_manager.block_pool.get_num_free_blocks()) + on_their_way

    def tokens_wanted(self, request: Any) -> int:
        """Tokens that a waiting call has to compute, before any limit."""
        computed_tokens = request.num_computed_tokens
        if computed_tokens == 0:
            _, computed_tokens, _ = self._scheduler.kv_cache_manager.get_computed_blocks(request)
            if self._swap is not None:
                computed_tokens = self._swap.restorable_tokens(request, computed_tokens)
        return max(1, int(request.num_tokens - computed_tokens))

    def holds_prompts_back(self, throttled: bool) -> bool:
        """vLLM computes no prompt in this step, so that calls that decode are not slowed.

        It does so in steps that its engine core throttles and, from 0.33 on, between those of `prefill_schedule_interval`.
        Not if more waited before than it could take, nor if nothing decodes.
        """
        scheduler = self._scheduler
        if scheduler.prefill_capacity_bound or not (throttled or self._between_prefills()):
            return False
        return any(not request.is_prefill_chunk for request in scheduler.running)

    def _between_prefills(self) -> bool:
        scheduler = self._scheduler
        interval_steps = getattr(scheduler, "local_prefill_interval", 1)
        return interval_steps > 1 and bool(
            scheduler.num_executed_steps + 1 - scheduler.last_prefill_step < interval_steps
        )


def _grammar_is_ready(request: Any) -> bool:
    structure = request.structured_output_request
    if structure is None:
        return False
    grammar = structure.grammar
    # A schema that does not compile ends the call; it never runs.
    return grammar is not None and not isinstance(grammar, Exception)


def running_tokens_wanted(request: Any) -> int:
    """Tokens that a running call has to compute, before any limit."""
    if is_ending(request):
        return 0
    wanted = request.num_tokens_with_spec + request.num_output_placeholders - request.num_computed_tokens
    return max(0, int(wanted))


def running_blocks_missing(scheduler: Any) -> int:
    """Blocks that running calls lack for the next step. 0 also where so many are free that they need not be counted."""
    manager = scheduler.kv_cache_manager
    block_tokens = scheduler.block_size
    budget_tokens = scheduler.max_num_scheduled_tokens
    if manager.block_pool.get_num_free_blocks() >= len(scheduler.running) + -(-budget_tokens // block_tokens):
        return 0
    missing_blocks = 0
    for request in scheduler.running:
        wanted_tokens = min(running_tokens_wanted(request), budget_tokens)
        budget_tokens -= wanted_tokens
        (blocks,) = manager.get_blocks(request.request_id).blocks
        whole_blocks = -(-(request.num_computed_tokens + wanted_tokens) // block_tokens)
        missing_blocks += max(0, whole_blocks - len(blocks))
    return missing_blocks


def is_ending(request: Any) -> bool:
    """Its last token is under way: vLLM gives it no other."""
    placeholders = request.num_output_placeholders
    return placeholders > 0 and bool(
        request.num_computed_tokens + 2 - placeholders >= request.num_prompt_tokens + request.max_tokens
    )
