"""Keeps the context of a program whose tool runs from being evicted for a call that can wait.

Between two calls of a program nothing refers to its context. vLLM gives its blocks to the next call that waits, and the
program comes back to compute its context again. If more programs are open than KV holds, every context is lost before its
next call, and the engine computes prompts instead of tokens. So a call that needs blocks of such contexts waits, if their
programs come before it in the order. It waits for one of them to come back, to end, or to be away for too long.

How long a context is held: for the time in which the engine could compute as many tokens as KV has room for. A context of n
tokens that lies idle for t takes n · t of memory and time. Computing it again takes n ÷ speed, with all of KV waiting. The two
are equal at t = capacity ÷ speed, for every n, so a hold never costs more than twice the better choice. InferCept
(Abhyankar et al. 2024) compares the same two wastes for an estimated duration of the tool.

Holds stop while most programs do not come back in that time, and resume once they do. A program's context counts against
calls of its own tenant alone, so no tenant's tools delay another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .admission import Admission
from .open_call import OpenCall
from .order.call_state import CallState
from .order.program_order import StepShare
from .prefill_speed import PrefillSpeed

#: Contexts that are held or watched. One takes 8 bytes a block and some 300 more.
CONTEXTS_MAX = 1024
#: What a program leaves of the weight of those before it, in the share that came back in time.
RETURN_DECAY = 0.95
#: Holds pay if at least this share of programs comes back in time.
RETURN_SHARE_MIN = 0.5


@dataclass(frozen=True, slots=True)
class Context:
    """Of a program without open calls."""

    tenant: str
    #: Place of the program's last call, as its next one's is expected.
    rank: float
    sequence: tuple[float, int]
    #: Blocks that only this program used when its call ended.
    blocks: int
    until_us: float

    def comes_before(self, call: CallState) -> bool:
        return (self.rank, self.sequence) < (call.place.rank, call.program_sequence)


@dataclass(frozen=True, slots=True)
class Returned:
    """A program whose next call has come and waits for a seat: its context stays held until that call starts."""

    call: CallState
    blocks: int


class KvHold:
    def __init__(self, scheduler: Any, kv_capacity_tokens: int) -> None:
        self._scheduler = scheduler
        self._admission = Admission(scheduler)
        self._kv_capacity_tokens = kv_capacity_tokens
        #: By program, the one whose call ended first in front.
        self._contexts: dict[str, Context] = {}
        self._returned: dict[str, Returned] = {}
        self.prefill_speed = PrefillSpeed()
        self._return_share = 1.0
        #: Decisions in which a call was held back.
        self.held_back = 0

    @property
    def hold_us(self) -> float:
        """How long a context is held; 0 until the speed of prefills is known."""
        return self._kv_capacity_tokens * (self.prefill_speed.us_per_token or 0)

    def computed(self, shares: Sequence[StepShare], wall_us: int) -> None:
        """A step has ended."""
        self.prefill_speed.computed(shares, wall_us)

    def arrived(self, call: CallState, now_us: int) -> None:
        program = call.program.program
        context = self._contexts.pop(program, None)
        if context is None:
            return
        returned = now_us < context.until_us
        self._seen(returned)
        if returned:
            self._returned[program] = Returned(call, context.blocks)

    def ended(self, open_call: OpenCall, now_us: int) -> None:
        """A call has ended in the order; vLLM still has its blocks."""
        state = open_call.state
        program = state.program
        self._returned.pop(program.program, None)
        if (
            program.open_calls > 0
            or not state.call.comes_back
            or not open_call.request.status.name.startswith(_ANSWERED)
        ):
            return
        blocks = sum(
            1
            for group in self._scheduler.kv_cache_manager.get_blocks(open_call.request.request_id).blocks
            for block in group
            if block.ref_cnt == 1 and block.block_hash is not None
        )
        hold_us = self.hold_us
        if blocks == 0 or hold_us == 0:
            return
        if len(self._contexts) >= CONTEXTS_MAX:
            del self._contexts[next(iter(self._contexts))]
        key = (state.place.rank, state.program_sequence)
        self._contexts[program.program] = Context(state.call.tenant, *key, blocks, now_us + hold_us)

    def startable(self, waiting: Sequence[CallState], now_us: int) -> int:
        """How many of the calls that have a seat and wait may start, from the first on."""
        self._drop_expired(now_us)
        self._drop_started()
        if not (self._contexts or self._returned) or self._return_share < RETURN_SHARE_MIN:
            return len(waiting)
        if len(self._scheduler.kv_cache_config.kv_cache_groups) != 1:
            # Several kinds of layers share blocks in ways that vLLM alone knows.
            return len(waiting)
        free_blocks = self._admission.free_blocks()
        for index, call in enumerate(waiting):
            needed_blocks = self._admission.blocks_needed(call.owner.request)
            if free_blocks - needed_blocks < self._blocks_before(call):
                if index == 0 and not self._scheduler.running:
                    # An engine that stands still waits for no tool.
                    return 1
                self.held_back += 1
                return index
            free_blocks -= needed_blocks
        return len(waiting)

    def _blocks_before(self, call: CallState) -> int:
        tenant = call.call.tenant
        blocks = sum(
            context.blocks
            for context in self._contexts.values()
            if context.tenant == tenant and context.comes_before(call)
        )
        return blocks + sum(
            one.blocks
            for one in self._returned.values()
            if one.call is not call and one.call.tenant is call.tenant and one.call.runs_before(call)
        )

    def _drop_started(self) -> None:
        started = [
            program
            for program, one in self._returned.items()
            if one.call.ended or one.call.owner.request.status.name == "RUNNING"
        ]
        for program in started:
            del self._returned[program]

    def _drop_expired(self, now_us: int) -> None:
        # The time of a hold hardly changes, so they expire in the order in which they began.
        while self._contexts:
            program, context = next(iter(self._contexts.items()))
            if now_us < context.until_us:
                return
            del self._contexts[program]
            self._seen(False)

    def _seen(self, returned: bool) -> None:
        self._return_share = self._return_share * RETURN_DECAY + (1 - RETURN_DECAY) * returned


_ANSWERED = ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED", "FINISHED_REPETITION")
