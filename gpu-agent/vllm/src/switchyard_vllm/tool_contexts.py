"""What becomes of the contexts of programs whose tools run, for policies that handle them (order/policy.py).

The decision is made before the call runs (LAMPS) or when it ends (InferCept), by handling/waste.py, and is carried out here
when the call ends in a tool:

    preserve   its blocks are pinned (pinned_blocks.py)
    discard    its own blocks leave the prefix cache, and are free
    swap       they are free, and become an image of the program once an allocation takes one of them (swap/). The image is
               brought back beside the KV cache shortly before the tool is expected to return

`gpu-agent/engine/memory/handling/tool-contexts.ts` is the same for the embedded engine, by the same names. A context that
nothing is known of is preserved at first, and decided again as it lasts. A tool that exceeds its forecast by REVISE_FACTOR is
decided again too.

What it keeps true:
- A pin ends after PRESERVE_US_MAX, and pins have at most PINNED_SHARE_MAX of the blocks.
- When the program is back, its pin ends once vLLM has admitted the call, not before.
- A pin never stalls a call: the context that is needed last gives way before vLLM looks for room, to calls that wait and to
  running ones that grow. It is swapped if the policy swaps, and otherwise stays as a prefix that anybody may take.
- No tenant's forecasts cost another its context: the tenant gives way first whose pins take most for its weight.
- No image is kept for a program for longer than IMAGE_US_MAX.

Copies leave and come back beside the forward pass here, so the rule's `hidden_swaps` changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Literal, Protocol

from .admission import running_tokens_wanted
from .handling.waste import (
    HANDLINGS,
    PRESERVE_US_MAX,
    Handling,
    HandlingChoice,
    HandlingRule,
    choose_handling,
    least_waste,
    revise_after_us,
    revise_handling,
)
from .open_call import OpenCall
from .order.policy import DecidesEarly, EngineMemory, HandlesContexts, Policy
from .pinned_blocks import Pin, PinnedBlocks

#: Contexts that are remembered. Past it, the one whose time comes first is given up.
CONTEXTS_MAX = 4096
#: Of all blocks, for pinned contexts together.
PINNED_SHARE_MAX = 0.75
#: No image is kept for longer for a program whose tool runs: a tool that has run for so long does not return.
IMAGE_US_MAX = 3_600_000_000
#: An image is brought back so many usual steps, and the time that moving it takes, before its tool is expected to return.
PREFETCH_STEPS = 2
#: A context is decided again no earlier than this.
REVISE_US_MIN = 50_000

#: What is done with a context when its time comes.
Next = Literal["revise", "prefetch", "forget"]


class SwapOfContexts(Protocol):
    """What is asked of the KV swap (swap/connector.py). Names are of contexts, and no request has one of them."""

    def leave_context(self, name: str, first_block: int, block_ids: tuple[int, ...], tokens: int) -> None: ...

    def prefetch_context(self, name: str) -> bool: ...

    def context_returns(self, name: str, request_id: str, tokens: int) -> None: ...

    def forget_context(self, name: str) -> None: ...

    def context_swap_us(self) -> int: ...

    def contexts_displaced(self) -> int: ...


@dataclass(slots=True, eq=False)
class ToolContext:
    program: str
    #: Whole blocks of it, and what they are known by.
    blocks: tuple[Any, ...]
    hashes: tuple[Any, ...]
    #: The first block from which on no other call used them when its call ended.
    first_own: int
    tokens: int
    #: As decided when its call ended.
    decided: Handling
    since_us: int
    #: Of the tool.
    expected_us: float
    number: int
    tenant: str
    weight: float
    #: None: it is not pinned.
    pin: Pin | None = None
    #: The swap watches it or has its image.
    is_left: bool = False
    next: Next = "forget"
    due_us: float = 0

    def left_us(self, now_us: int) -> float:
        """What is overdue is expected to last as long again as it has lasted."""
        away_us = now_us - self.since_us
        return self.expected_us - away_us if away_us <= self.expected_us else away_us


@dataclass(slots=True)
class HandlingCounts:
    #: Contexts for which it was decided when their call ended.
    decided: int = 0
    #: Whose programs came back.
    returned: int = 0
    #: Of calls that came back and ran: tokens of the context that their prompt goes on from, and those that were at hand.
    context_tokens: int = 0
    cached_tokens: int = 0


@dataclass(slots=True)
class ToolCounts:
    of: dict[Handling, HandlingCounts] = field(default_factory=lambda: {name: HandlingCounts() for name in HANDLINGS})
    #: Pins that ended because a call needed their room.
    relieved: int = 0
    #: Preserved contexts that were swapped or dropped because their tools took longer than expected.
    revised: int = 0
    #: Images that were brought back before their program came.
    prefetched: int = 0
    #: Given up: their programs did not come back in time.
    expired: int = 0


class ToolContexts:
    def __init__(
        self, scheduler: Any, calls: Mapping[str, OpenCall], memory: EngineMemory, swap: SwapOfContexts | None
    ) -> None:
        self._scheduler = scheduler
        self._calls = calls
        self._memory = memory
        self._swap = swap
        self._policy: Policy[Any] | None = None
        #: None: contexts are not handled.
        self.rule: HandlingRule | None = None
        self._allowed: tuple[Handling, ...] = ()
        self.pinned = PinnedBlocks(scheduler)
        #: One of each program.
        self._contexts: dict[str, ToolContext] = {}
        #: By request: what it came back to, until it is admitted or ends.
        self._back: dict[str, ToolContext] = {}
        #: Due time, a number that is used once, and the context; those that are no longer due then are passed over.
        self._due: list[tuple[float, int, ToolContext]] = []
        self._number = 0
        self._dues = 0
        self._counts = ToolCounts()

    def counts(self) -> dict[str, Any]:
        """As `ToolCounts` of the embedded engine."""
        counts = self._counts
        of: dict[str, Any] = {
            name: {
                "decided": one.decided,
                "returned": one.returned,
                "context_tokens": one.context_tokens,
                "cached_tokens": one.cached_tokens,
            }
            for name, one in counts.of.items()
        }
        return {
            **of,
            "away": len(self._contexts),
            "relieved": counts.relieved,
            "revised": counts.revised,
            "prefetched": counts.prefetched,
            "displaced": 0 if self._swap is None else self._swap.contexts_displaced(),
            "expired": counts.expired,
            "swap_us": 0 if self._swap is None else self._swap.context_swap_us(),
        }

    def use(self, policy: Policy[Any]) -> None:
        """From now on contexts are handled as this policy has it. One that does not handle them ends all pins."""
        self._policy = policy
        # Several kinds of layers share blocks in ways that vLLM alone knows.
        one_kind = len(self._scheduler.kv_cache_config.kv_cache_groups) == 1
        self.rule = policy.handling if one_kind and isinstance(policy, HandlesContexts) else None
        if self.rule is None:
            self.clear()
            return
        swaps = self._swap is not None and self._memory.costs.swap is not None
        self._allowed = tuple(name for name in self.rule.allowed if swaps or name != "swap")

    def clear(self) -> None:
        """Nothing is kept any more, as before a reset of the prefix cache."""
        for context in [*self._contexts.values(), *self._back.values()]:
            self._unpin(context)
            self._forget_image(context)
        for request_id in self._back:
            self.pinned.forget_call(request_id)
        self._contexts.clear()
        self._back.clear()
        self._due.clear()

    # Calls.

    def ended(self, open_call: OpenCall, now_us: int) -> None:
        """A call has ended in the order; vLLM still has its blocks."""
        state = open_call.state
        program = state.program.program
        if self.rule is None or not open_call.leaves_context():
            return
        forecast = state.call.forecast
        tool_us = None if forecast is None else forecast.tool_us
        if forecast is not None and tool_us is None:
            return
        blocks = self._whole_blocks(open_call.request)
        if not blocks:
            return
        assert program not in self._contexts, "a program whose call ended was told to have come back"
        if len(self._contexts) >= CONTEXTS_MAX:
            self._pass_over()
            self._forget(self._due[0][2])
        hashes = tuple(open_call.request.block_hashes[: len(blocks)])
        first_own = next((at + 1 for at in reversed(range(len(blocks))) if blocks[at].ref_cnt != 1), 0)
        tokens = len(blocks) * self._scheduler.block_size
        choice = self._decide(open_call, tokens, tool_us or 0)
        context = ToolContext(
            program,
            tuple(blocks),
            hashes,
            first_own,
            tokens,
            choice.handling,
            now_us,
            tool_us or 0,
            self._number,
            state.call.tenant,
            state.call.tenant_weight,
        )
        self._number += 1
        self._contexts[program] = context
        self._counts.of[choice.handling].decided += 1
        context.pin = self.pinned.pin(context.blocks)
        self._carry_out(context, choice.handling, now_us)
        self._bound_share(now_us)

    def arrived(self, open_call: OpenCall) -> None:
        """A call of the program has come. What its context left is the call's from now on."""
        context = self._contexts.pop(open_call.state.program.program, None)
        if context is None:
            return
        request = open_call.request
        self._counts.of[context.decided].returned += 1
        same = _common(context.hashes, request.block_hashes)
        self._back[request.request_id] = context
        if context.pin is not None:
            if same == 0:
                self._unpin(context)
            else:
                self.pinned.keep_for(request.request_id, context.pin, same)
        if context.is_left and self._swap is not None:
            context.is_left = False
            self._swap.context_returns(_name(context), request.request_id, same * self._scheduler.block_size)

    def admitted(self, scheduled: Mapping[str, int]) -> None:
        """vLLM has planned a step."""
        self.pinned.take_back()
        for request_id in self._back.keys() & scheduled.keys():
            context = self._back.pop(request_id)
            open_call = self._calls.get(request_id)
            if open_call is not None:
                state = open_call.state
                tokens = min(context.tokens, state.prompt_tokens - 1)
                counts = self._counts.of[context.decided]
                counts.context_tokens += tokens
                counts.cached_tokens += min(tokens, state.cached_tokens or 0)
            self._unpin(context)
            self.pinned.forget_call(request_id)

    def closed(self, request_id: str) -> None:
        """A call has ended. If it was never admitted, what was kept for it is free."""
        context = self._back.pop(request_id, None)
        if context is not None:
            self._unpin(context)
            self.pinned.forget_call(request_id)

    # A step.

    def begin(self, now_us: int) -> None:
        """Before a decision."""
        while True:
            self._pass_over()
            if not self._due or self._due[0][0] > now_us:
                return
            _, _, context = heappop(self._due)
            if context.next == "forget":
                self._forget(context)
            elif context.next == "prefetch":
                self._prefetch(context)
            else:
                self._revise(context, now_us)

    def spare_blocks(self, request: Any) -> int:
        """Blocks that pins would give way with to this call."""
        if self.rule is None or self._is_firm():
            return 0
        own = self._back.get(request.request_id)
        pins = [pin for pin in self.pinned.all_pins if own is None or pin is not own.pin]
        return sum(block.ref_cnt == 1 for pin in pins for block in pin.blocks)

    def make_way(self, blocks: int, now_us: int, request: Any = None) -> None:
        """Ends pins until so many blocks are free, or no pin is left but that of `request`."""
        if self.rule is None or self._is_firm():
            return
        pool = self._scheduler.kv_cache_manager.block_pool
        own = None if request is None else self._back.get(request.request_id)
        while pool.get_num_free_blocks() < blocks and (self._relieve_one(now_us) or self._relieve_waiting(own)):
            pass

    def grow(self, now_us: int) -> None:
        """Running calls get the blocks that they need in this step before vLLM would preempt one for want of them."""
        if self.rule is None or not self.pinned.all_pins:
            return
        scheduler = self._scheduler
        pool = scheduler.kv_cache_manager.block_pool
        block_tokens = scheduler.block_size
        budget_tokens = scheduler.max_num_scheduled_tokens
        if pool.get_num_free_blocks() >= len(scheduler.running) + -(-budget_tokens // block_tokens):
            return
        needed_blocks = 0
        for request in scheduler.running:
            wanted_tokens = min(running_tokens_wanted(request), budget_tokens)
            budget_tokens -= wanted_tokens
            (blocks,) = scheduler.kv_cache_manager.get_blocks(request.request_id).blocks
            whole_blocks = -(-(request.num_computed_tokens + wanted_tokens) // block_tokens)
            needed_blocks += max(0, whole_blocks - len(blocks))
        self.make_way(needed_blocks, now_us)

    # What is decided, and done.

    def _decide(self, open_call: OpenCall, tokens: int, tool_us: float) -> HandlingChoice:
        policy: object = self._policy
        early = policy.handling_of(open_call.state.place) if isinstance(policy, DecidesEarly) else None
        if early is None:
            other_tokens = self._other_tokens(open_call.request)
            return choose_handling(self._memory.costs, tokens, other_tokens, tool_us, self._allowed)
        if early.handling in self._allowed:
            return early
        return HandlingChoice(least_waste(early.waste, self._allowed), early.waste)

    def _other_tokens(self, ended: Any) -> int:
        return sum(int(request.num_computed_tokens) for request in self._scheduler.running if request is not ended)

    def _carry_out(self, context: ToolContext, handling: Handling, now_us: int) -> None:
        rule = self.rule
        assert rule is not None
        if handling == "preserve":
            after_us = max(REVISE_US_MIN, revise_after_us(context.expected_us)) if rule.revises else PRESERVE_US_MAX
            self._set(context, "revise", max(context.since_us + after_us, now_us + 1))
        elif handling == "swap":
            self._leave(context, now_us)
        else:
            self._unpin(context)
            own = context.blocks[context.first_own :]
            self._scheduler.kv_cache_manager.block_pool.evict_blocks({block.block_id for block in own})
            self._wait(context)

    def _leave(self, context: ToolContext, now_us: int) -> None:
        """Its blocks are free, and the swap saves them before they are given to another."""
        assert self._swap is not None
        own = tuple(block.block_id for block in context.blocks[context.first_own :])
        self._unpin(context)
        if not own:
            self._wait(context)
            return
        context.is_left = True
        self._swap.leave_context(_name(context), context.first_own, own, context.tokens)
        swap = self._memory.costs.swap
        lead_us = PREFETCH_STEPS * self._memory.step_us + (0 if swap is None else swap.us(context.tokens))
        back_us = context.since_us + context.expected_us
        if now_us < back_us:
            self._set(context, "prefetch", max(now_us + 1, back_us - lead_us))
        else:
            self._wait(context)

    def _prefetch(self, context: ToolContext) -> None:
        if self._swap is not None and self._swap.prefetch_context(_name(context)):
            self._counts.prefetched += 1
        self._wait(context)

    def _revise(self, context: ToolContext, now_us: int) -> None:
        """Its tool has lasted for longer than expected."""
        away_us = now_us - context.since_us
        others = self._other_tokens(None)
        choice = revise_handling(self._memory.costs, context.tokens, others, away_us, self._allowed)
        if choice.handling == "preserve":
            lasts_us = min(PRESERVE_US_MAX, 2 * max(away_us, REVISE_US_MIN))
            self._set(context, "revise", context.since_us + lasts_us)
            return
        self._counts.revised += 1
        self._carry_out(context, choice.handling, now_us)

    def _bound_share(self, now_us: int) -> None:
        blocks_max = PINNED_SHARE_MAX * self._scheduler.kv_cache_config.num_blocks
        while self.pinned.blocks > blocks_max and self._relieve_one(now_us):
            pass

    def _relieve_one(self, now_us: int) -> bool:
        """Ends the pin of the context that is needed last. False: there is none."""
        pinned = [context for context in self._contexts.values() if context.pin is not None]
        if not pinned:
            return False
        held: dict[str, float] = {}
        for context in pinned:
            held[context.tenant] = held.get(context.tenant, 0) + context.tokens / context.weight
        last = max(pinned, key=lambda one: (held[one.tenant], one.tenant, one.left_us(now_us), one.number))
        self._counts.relieved += 1
        if "swap" in self._allowed:
            self._leave(last, now_us)
        else:
            self._unpin(last)
            self._wait(last)
        return True

    def _relieve_waiting(self, own: ToolContext | None) -> bool:
        """As `_relieve_one`, of a program that is back, and whose call waits and comes last in the order."""
        waiting = [
            (self._calls[request_id].state.order_key, request_id)
            for request_id, context in self._back.items()
            if context.pin is not None and context is not own
        ]
        if not waiting:
            return False
        _, request_id = max(waiting)
        context = self._back[request_id]
        self._counts.relieved += 1
        tokens = _common(context.hashes, self._calls[request_id].request.block_hashes) * self._scheduler.block_size
        self.pinned.forget_call(request_id)
        self._unpin(context)
        if "swap" in self._allowed and self._swap is not None:
            own_ids = tuple(block.block_id for block in context.blocks[context.first_own :])
            self._swap.leave_context(_name(context), context.first_own, own_ids, context.tokens)
            self._swap.context_returns(_name(context), request_id, tokens)
        return True

    def _is_firm(self) -> bool:
        # An engine that stands still waits for no tool.
        return self.rule is not None and self.rule.pins == "firm" and bool(self._scheduler.running)

    def _whole_blocks(self, request: Any) -> list[Any]:
        """Computed blocks of a call that ends, as far as another call can find them."""
        tokens = int(request.num_computed_tokens - request.num_output_placeholders)
        (table,) = self._scheduler.kv_cache_manager.get_blocks(request.request_id).blocks
        known = len(request.block_hashes)
        blocks: list[Any] = []
        for block in table[: min(tokens // self._scheduler.block_size, known)]:
            if block.is_null or (self.pinned.prefix_cache and block.block_hash is None):
                break
            blocks.append(block)
        return blocks

    def _unpin(self, context: ToolContext) -> None:
        if context.pin is not None:
            self.pinned.unpin(context.pin)
            context.pin = None

    def _forget_image(self, context: ToolContext) -> None:
        if context.is_left and self._swap is not None:
            self._swap.forget_context(_name(context))
        context.is_left = False

    def _forget(self, context: ToolContext) -> None:
        self._contexts.pop(context.program, None)
        self._counts.expired += 1
        self._unpin(context)
        self._forget_image(context)

    def _wait(self, context: ToolContext) -> None:
        """Nothing more is done for it until its program is back."""
        self._set(context, "forget", context.since_us + IMAGE_US_MAX)

    def _set(self, context: ToolContext, then: Next, due_us: float) -> None:
        context.next = then
        context.due_us = due_us
        if len(self._due) >= 2 * CONTEXTS_MAX:
            self._due = [entry for entry in self._due if self._is_due(*entry)]
            heapify(self._due)
        self._dues += 1
        heappush(self._due, (due_us, self._dues, context))

    def _is_due(self, due_us: float, _number: int, context: ToolContext) -> bool:
        return self._contexts.get(context.program) is context and due_us == context.due_us

    def _pass_over(self) -> None:
        while self._due and not self._is_due(*self._due[0]):
            heappop(self._due)


def _name(context: ToolContext) -> str:
    """No request has a name with this in it."""
    return f"\0{context.number}"


def _common(known: Sequence[Any], hashes: Sequence[Any]) -> int:
    """Blocks of a prompt that are those of the context. A block's hash covers the blocks before it."""
    same = min(len(known), len(hashes))
    while same > 0 and known[same - 1] != hashes[same - 1]:
        same -= 1
    return same
