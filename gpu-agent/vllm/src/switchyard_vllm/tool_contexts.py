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
- No tenant's forecasts cost another its context: the tenant gives way first whose pins take most for its weight. The swap
  keeps the same of images (swap/held_images.py).
- No image is kept for a program for longer than IMAGE_US_MAX, nor of one that the agent says goes on elsewhere or has ended.
  The agent may say nothing: then an image goes when another one needs the room (swap/held_images.py).

Copies leave and come back beside the forward pass here, so the rule's `hidden_swaps` changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .admission import running_blocks_missing
from .context_decisions import ContextDecisions
from .handling.decision import HandlingDecision
from .handling.tool_counts import ToolCounts
from .handling.waste import PRESERVE_US_MAX, Handling, HandlingRule, revise_after_us
from .open_call import OpenCall
from .order.policy import EngineMemory, Policy
from .pinned_blocks import PinnedBlocks
from .swap.image import ImageOwner
from .tool_context import DueContexts, SwapOfContexts, ToolContext, last_needed

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


class ToolContexts:
    def __init__(
        self, scheduler: Any, calls: Mapping[str, OpenCall], memory: EngineMemory, swap: SwapOfContexts | None
    ) -> None:
        self._scheduler = scheduler
        self._calls = calls
        self._memory = memory
        self._swap = swap
        self._decisions = ContextDecisions(scheduler, memory, swaps=swap is not None)
        self.pinned = PinnedBlocks(scheduler)
        #: One of each program.
        self._contexts: dict[str, ToolContext] = {}
        #: By request: what it came back to, until it is admitted or ends.
        self._back: dict[str, ToolContext] = {}
        self._due = DueContexts(self._contexts, CONTEXTS_MAX)
        self._number = 0
        self._now_us = 0
        self._counts = ToolCounts()

    def counts(self) -> dict[str, Any]:
        """As `ToolCounts` of the embedded engine."""
        return {
            **self._counts.as_dict(len(self._contexts)),
            "displaced": 0 if self._swap is None else self._swap.contexts_displaced(),
            "swap_us": 0 if self._swap is None else self._swap.context_swap_us(),
        }

    def use(self, policy: Policy[Any]) -> None:
        """From now on contexts are handled as this policy has it. One that does not handle them ends all pins."""
        self._decisions.use(policy)
        if self.rule is None:
            self.clear()

    @property
    def rule(self) -> HandlingRule | None:
        """None: contexts are not handled."""
        return self._decisions.rule

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

    def ended(self, open_call: OpenCall, now_us: int) -> HandlingDecision | None:
        """A call has ended in the order; vLLM still has its blocks. None: nothing is decided for its context."""
        state = open_call.state
        program = state.program.program
        if self.rule is None or not open_call.leaves_context():
            return None
        forecast = state.call.forecast
        tool_us = None if forecast is None else forecast.tool_us
        if forecast is not None and tool_us is None:
            return None
        blocks = self._whole_blocks(open_call.request)
        if not blocks:
            return None
        assert program not in self._contexts, "a program whose call ended was told to have come back"
        first_due = self._due.first()
        if len(self._contexts) >= CONTEXTS_MAX and first_due is not None:
            self._forget(first_due)
        hashes = tuple(open_call.request.block_hashes[: len(blocks)])
        first_own = next((at + 1 for at in reversed(range(len(blocks))) if blocks[at].ref_cnt != 1), 0)
        tokens = len(blocks) * self._scheduler.block_size
        decision = self._decisions.of_ended(open_call, tokens, tool_us or 0)
        context = ToolContext(
            program,
            tuple(blocks),
            hashes,
            first_own,
            tokens,
            decision.handling,
            now_us,
            tool_us or 0,
            self._number,
            ImageOwner(state.call.tenant, state.call.tenant_weight),
        )
        self._number += 1
        self._contexts[program] = context
        self._counts.of[decision.handling].decided += 1
        context.pin = self.pinned.pin(context.blocks)
        self._carry_out(context, decision.handling, now_us)
        self._bound_share(now_us)
        return decision

    def gone_elsewhere(self, program: str) -> None:
        """The program goes on at another engine or has ended: what is kept of its KV is of no use."""
        context = self._contexts.get(program)
        if context is None:
            return
        # Of what is not pinned blocks may be others' by now.
        own = () if context.pin is None else context.blocks[context.first_own :]
        unshared = {block.block_id for block in own if block.ref_cnt == 1}
        self._forget(context)
        self._scheduler.kv_cache_manager.block_pool.evict_blocks(unshared)

    def arrived(self, open_call: OpenCall) -> None:
        """A call of the program has come. What its context left is the call's from now on."""
        context = self._contexts.pop(open_call.state.program.program, None)
        if context is None:
            return
        request = open_call.request
        self._counts.of[context.decided].returned += 1
        same = context.common_blocks(request.block_hashes)
        self._back[request.request_id] = context
        if context.pin is not None:
            if same == 0:
                self._unpin(context)
            else:
                self.pinned.keep_for(request.request_id, context.pin, same)
        if context.is_left and self._swap is not None:
            context.is_left = False
            self._swap.context_returns(context.name, request.request_id, same * self._scheduler.block_size)

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
        self._now_us = now_us
        while (context := self._due.take(now_us)) is not None:
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
        self.make_way(running_blocks_missing(self._scheduler), now_us)

    # What is done.

    def _carry_out(self, context: ToolContext, handling: Handling, now_us: int) -> None:
        rule = self.rule
        assert rule is not None
        if handling == "preserve":
            after_us = max(REVISE_US_MIN, revise_after_us(context.expected_us)) if rule.revises else PRESERVE_US_MAX
            self._due.set(context, "revise", max(context.since_us + after_us, now_us + 1))
        elif handling == "swap":
            self._leave(context, now_us)
        else:
            self._unpin(context)
            self._scheduler.kv_cache_manager.block_pool.evict_blocks(set(context.own_block_ids))
            self._wait(context)

    def _leave(self, context: ToolContext, now_us: int) -> None:
        """Its blocks are free, and the swap saves them before they are given to another."""
        assert self._swap is not None
        self._unpin(context)
        if not context.own_block_ids:
            self._wait(context)
            return
        context.is_left = True
        self._leave_blocks(context, self._swap)
        swap = self._memory.costs.swap
        lead_us = PREFETCH_STEPS * self._memory.step_us + (0 if swap is None else swap.us(context.tokens))
        back_us = context.since_us + context.expected_us
        if now_us < back_us:
            self._due.set(context, "prefetch", max(now_us + 1, back_us - lead_us))
        else:
            self._wait(context)

    def _leave_blocks(self, context: ToolContext, swap: SwapOfContexts) -> None:
        def left_us() -> float:
            return context.left_us(self._now_us)

        own = context.own_block_ids
        swap.leave_context(context.name, context.first_own, own, context.tokens, context.owner, left_us)

    def _prefetch(self, context: ToolContext) -> None:
        if self._swap is not None and self._swap.prefetch_context(context.name):
            self._counts.prefetched += 1
        self._wait(context)

    def _revise(self, context: ToolContext, now_us: int) -> None:
        """Its tool has lasted for longer than expected."""
        away_us = now_us - context.since_us
        handling = self._decisions.of_lasting(context.tokens, away_us)
        if handling == "preserve":
            lasts_us = min(PRESERVE_US_MAX, 2 * max(away_us, REVISE_US_MIN))
            self._due.set(context, "revise", context.since_us + lasts_us)
            return
        self._counts.revised += 1
        self._carry_out(context, handling, now_us)

    def _bound_share(self, now_us: int) -> None:
        blocks_max = PINNED_SHARE_MAX * self._scheduler.kv_cache_config.num_blocks
        while self.pinned.blocks > blocks_max and self._relieve_one(now_us):
            pass

    def _relieve_one(self, now_us: int) -> bool:
        """Ends the pin of the context that is needed last. False: there is none."""
        pinned = [context for context in self._contexts.values() if context.pin is not None]
        if not pinned:
            return False
        last = last_needed(pinned, now_us)
        self._counts.relieved += 1
        if "swap" in self._decisions.allowed:
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
        tokens = context.common_blocks(self._calls[request_id].request.block_hashes) * self._scheduler.block_size
        self.pinned.forget_call(request_id)
        self._unpin(context)
        if "swap" in self._decisions.allowed and self._swap is not None:
            self._leave_blocks(context, self._swap)
            self._swap.context_returns(context.name, request_id, tokens)
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
            self._swap.forget_context(context.name)
        context.is_left = False

    def _forget(self, context: ToolContext) -> None:
        self._contexts.pop(context.program, None)
        self._counts.expired += 1
        self._unpin(context)
        self._forget_image(context)

    def _wait(self, context: ToolContext) -> None:
        """Nothing more is done for it until its program is back."""
        self._due.set(context, "forget", context.since_us + IMAGE_US_MAX)
