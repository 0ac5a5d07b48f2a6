"""Keeps the context of a program whose tool runs from being evicted for a call that can wait.

Between two calls of a program nothing refers to its context. vLLM gives its blocks to the next call that waits, and the
program comes back to compute its context again. If more programs are open than KV holds, every context is lost before its
next call, and the engine computes prompts instead of tokens. So a call that needs blocks of such contexts waits, if their
programs come before it in the order. It waits for one of them to come back, to end, or to be away for too long.

How long a context is held is handling/program_hold.py's: at first for the time in which the engine could compute as many
tokens as KV has room for. A context of n tokens that lies idle for t takes n * t of memory and time, and computing it again
takes n / speed with all of KV waiting, so the two are equal at t = capacity / speed, for every n. As programs of a class come
back or stay away, it becomes the time that would have paid best for them. A program's context counts against calls of its own
tenant alone, and classes are the tenant's own, so no tenant's tools delay another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from .admission import Admission
from .handling.program_hold import Ending, ProgramHold
from .open_call import OpenCall
from .order.call_state import CallState
from .order.program_order import StepShare
from .prefill_speed import PrefillSpeed


@dataclass(frozen=True, slots=True)
class Context:
    """Of a program without open calls. It takes 16 bytes a block and some 300 more."""

    tenant: str
    #: Place of the program's last call, as its next one's is expected.
    rank: float
    sequence: tuple[float, int]
    #: Blocks that only this program used when its call ended, and what the prefix cache knew them by.
    own: tuple[Any, ...]
    hashes: tuple[Any, ...]

    @property
    def blocks(self) -> int:
        return len(self.own)

    def is_whole(self) -> bool:
        """No block of it was given to another call."""
        return all(block.block_hash == known for block, known in zip(self.own, self.hashes, strict=True))

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
        #: By program, those that are held.
        self._contexts: dict[str, Context] = {}
        self._returned: dict[str, Returned] = {}
        self._times = ProgramHold(self._was_taken, self._let_go)
        self.prefill_speed = PrefillSpeed()
        #: Decisions in which a call was held back.
        self.held_back = 0

    @property
    def buy_us(self) -> float:
        """Holding a context for so long costs as much as computing it again; 0 until the speed of prefills is known."""
        return self._kv_capacity_tokens * (self.prefill_speed.us_per_token or 0)

    def counts(self) -> dict[str, int]:
        """As `HoldCounts` of the embedded engine."""
        times = self._times
        ends = {name: times.ends[name] for name in get_args(Ending)}
        return {"contexts": times.contexts, "begun": times.begun, **ends, "held_back": self.held_back}

    def computed(self, shares: Sequence[StepShare], wall_us: int) -> None:
        """A step has ended."""
        self.prefill_speed.computed(shares, wall_us)

    def arrived(self, call: CallState, now_us: int) -> None:
        program = call.program.program
        self._times.expire(now_us)
        context = self._contexts.get(program)
        if self._times.arrived(program, now_us) and context is not None:
            self._returned[program] = Returned(call, context.blocks)

    def ended(self, open_call: OpenCall, now_us: int) -> None:
        """A call has ended in the order; vLLM still has its blocks."""
        state = open_call.state
        program = state.program
        self._returned.pop(program.program, None)
        if not open_call.leaves_context():
            return
        buy_us = self.buy_us
        own = tuple(
            block
            for group in self._scheduler.kv_cache_manager.get_blocks(open_call.request.request_id).blocks
            for block in group
            if block.ref_cnt == 1 and block.block_hash is not None
        )
        if not own or buy_us == 0:
            return
        key = (state.place.rank, state.program_sequence)
        context = Context(state.call.tenant, *key, own, tuple(block.block_hash for block in own))
        if self._times.ended(program.program, state.call.tenant, state.call.program_class, buy_us, now_us):
            self._contexts[program.program] = context

    def startable(self, waiting: Sequence[CallState], now_us: int) -> int:
        """How many of the calls that have a seat and wait may start, from the first on."""
        self._times.expire(now_us)
        self._drop_started()
        if not (self._contexts or self._returned):
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

    def _was_taken(self, program: str) -> bool:
        return not self._contexts[program].is_whole()

    def _let_go(self, program: str) -> None:
        del self._contexts[program]
