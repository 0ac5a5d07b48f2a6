"""The scheduler's side of the swap: which preempted calls become images, when images come back, and the bound of the arena.

Nothing is copied when a call is preempted. Its own blocks are watched (left_blocks.py). When an allocation takes one of
them, the call becomes an image with the orders of that step, or is computed again (handling/swap_choice.py). The workers
gather its blocks before the step's forward pass, on the stream that the pass runs on, so vLLM can give the blocks out in
the same `schedule`.

When the call is to run again, its image is first brought back to the device beside the KV cache, and until it is there the
call waits without holding a block. Then it is admitted like one that was found in a cache, and the workers scatter the
image into its blocks before the forward pass.

What is restored ends where it is certain: at the tokens that were computed when the call was preempted, less those whose
outcome was still under way. The last token of a call is always computed, since the next one is sampled from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..handling.swap_choice import choose_swap, restore_gain_us
from .held_images import HeldImages
from .image import NOBODY, Image, ImageOwner
from .left_blocks import BlockWatch, LeftBlocks
from .orders import Orders, Report, SwapIn, SwapOut
from .ring_use import RingUse
from .slab_pool import slabs_for
from .staging import Staging
from .swap_rules import ALWAYS, SwapLedger, SwapRules


class SwapScheduler:
    def __init__(self, rules: SwapRules, manager: Any) -> None:
        """`manager`: vLLM's KV cache manager."""
        self._rules = rules
        self._costs = ALWAYS if rules.always else rules.costs
        self._manager = manager
        self._watch = BlockWatch(manager.block_pool)
        self.ledger: SwapLedger | None = None
        self._held = HeldImages(rules.arena_slabs, rules.block_tokens)
        self._ring = RingUse(rules.ring_blocks, rules.ranks)
        self._staging = Staging(rules.prefetch_blocks, rules.ranks)
        self._next_image = 1
        self._step = 0
        # Of the next orders.
        self._reset = False
        self._drop: list[Image] = []
        self._into: list[SwapIn] = []
        #: Whose transfers are still to be written down, by image, and the images of each.
        self._owners: dict[int, str] = {}
        #: By name, of contexts that are watched or have images: for how long their programs are expected to be away still.
        self._contexts: dict[str, Callable[[], float]] = {}
        self._owned: dict[str, list[int]] = {}
        # Counts since start.
        self.swapped_out = 0
        self.swapped_in = 0
        self.dropped = 0
        self.declined = 0
        #: For which steps waited for images of contexts.
        self.context_us = 0
        #: Images of contexts that were dropped for others.
        self.contexts_displaced = 0

    # What is held.

    @property
    def images(self) -> int:
        return len(self._held.by_name)

    @property
    def used_slabs(self) -> int:
        return self._held.used_slabs

    @property
    def leaving_blocks(self) -> int:
        """Blocks of images that are not known to be on the host."""
        return self._ring.used_blocks

    @property
    def staged_blocks(self) -> int:
        """Blocks of images that have room on the device."""
        return self._staging.held_blocks

    @property
    def watched_calls(self) -> int:
        return len(self._watch)

    @property
    def watched_blocks(self) -> int:
        return self._watch.watched_blocks

    # Calls.

    def preempted(self, request: Any) -> None:
        """A call is about to lose its blocks."""
        name = request.request_id
        if request.resumable or request.skip_reading_prefix_cache:
            # The input of the one may change, and the other has its prompt computed again even if it is cached.
            return
        tokens = int(request.num_computed_tokens - request.num_output_placeholders)
        (table,) = self._manager.get_blocks(name).blocks
        computed = table[: -(-max(0, tokens) // self._rules.block_tokens)]
        first = next((at + 1 for at in reversed(range(len(computed))) if not _is_own(computed[at])), 0)
        own = computed[first:]
        self._watch.forget(name)
        if not own:
            return
        owner = NOBODY if self.ledger is None else self.ledger.owner_of(name)
        self._watch.leave(LeftBlocks(name, first, tuple(block.block_id for block in own), tokens, owner))
        if self._rules.always:
            self._watch.call_due(name)

    def ended(self, request_id: str) -> None:
        self._watch.forget(request_id)
        self._forget_image(request_id)
        self._disown(request_id)

    # Contexts that programs left while their tools run (tool_contexts.py). They have names that no call has.

    def leave_context(
        self,
        name: str,
        first_block: int,
        block_ids: tuple[int, ...],
        tokens: int,
        owner: ImageOwner,
        left_us: Callable[[], float],
    ) -> None:
        """As a preempted call's blocks: they are free, and become an image once an allocation takes one.

        `left_us`: for how long its program is expected to be away still.
        """
        self._contexts[name] = left_us
        self._watch.leave(LeftBlocks(name, first_block, block_ids, tokens, owner))

    def prefetch_context(self, name: str) -> bool:
        """The program is expected. Whether its image is being brought to the device, where there is free room for it."""
        image = self._held.by_name.get(name)
        if image is None or self._staging.needs(image) or self._staging.lacks(image.blocks):
            return False
        self._staging.expected(image)
        return True

    def context_returns(self, name: str, request_id: str, tokens: int) -> None:
        """A call has come that goes on from the first `tokens` tokens of it."""
        self._contexts.pop(name, None)
        block_tokens = self._rules.block_tokens
        if self._watch.is_due(name):
            self._watch.forget(name)
        self._watch.rename(name, request_id, tokens, block_tokens)
        self._disown(name)
        image = self._held.by_name.get(name)
        if image is None:
            return
        if tokens <= image.first_block * block_tokens:
            self._forget_image(name)
            return
        image.tokens = min(image.tokens, tokens)
        image.asked = 0
        image.left_us = None
        self._held.rename(image, request_id)
        self._owners[image.id] = request_id
        self._owned.setdefault(request_id, []).append(image.id)

    def forget_context(self, name: str) -> None:
        self._contexts.pop(name, None)
        self.ended(name)

    def void(self) -> None:
        """The model would compute other KV than what was saved: nothing of that is used again."""
        self._watch.clear()
        self._held.clear()
        self._owners.clear()
        self._owned.clear()
        self._contexts.clear()
        self._drop.clear()
        self._into.clear()
        self._ring.clear()
        self._staging.clear()
        self._reset = True

    def stop(self) -> list[int]:
        """vLLM goes on without the swap. Returns the blocks that it counts as restored and that will not be."""
        unloaded = [block_id for one in self._into for block_id in one.block_ids]
        self.void()
        self._watch.stop()
        return unloaded

    def restorable_tokens(self, request: Any, cached_tokens: int) -> int:
        """Up to which token a call that waits need not be computed: what is cached, and what its image adds."""
        image = self._held.by_name.get(request.request_id)
        if image is None:
            return cached_tokens
        return cached_tokens + self._gained(request, image.first_block, image.tokens, cached_tokens)

    def staged(self, request: Any) -> bool:
        """Whether a call that waits has an image and all devices have it."""
        image = self._held.by_name.get(request.request_id)
        return image is not None and self._staging.is_staged(image)

    def ready(self, request: Any) -> bool:
        """Whether a call that waits can be admitted. If not, what it needs is asked for."""
        name = request.request_id
        if name not in self._held.by_name and self._watch.of(name) is None:
            return not self._watch.is_due(name)
        if self._manager.enable_kv_cache_events and getattr(request, "kv_cache_report_mode", "") == "full":
            # Here a lookup sends events. vLLM asks by itself.
            return True
        _, cached_tokens, _ = self._manager.get_computed_blocks(request)
        return self.matched(request, cached_tokens - cached_tokens % self._rules.block_tokens) is not None

    def matched(self, request: Any, cached_tokens: int) -> int | None:
        """Tokens beyond the cached ones that admission would restore. None: ask again in the next step."""
        name = request.request_id
        left = self._watch.of(name)
        if left is not None:
            tokens = self._gained(request, left.first_block, left.tokens, cached_tokens)
            if choose_swap(self._costs, tokens, 0, 0, 0, ()) is None:
                return 0
            # Its blocks lie where they were, but the prefix cache does not know them.
            self._watch.call_due(name)
            return None
        image = self._held.by_name.get(name)
        if image is None:
            return None if self._watch.is_due(name) else 0
        self._staging.asked(image)
        tokens = self._gained(request, image.first_block, image.tokens, cached_tokens)
        return tokens if tokens == 0 or self._staging.ready(image) else None

    def admitted(self, request: Any, table: Iterable[int], restored_tokens: int) -> None:
        """vLLM has given the call its blocks, and counts so many tokens as restored."""
        name = request.request_id
        if restored_tokens > 0:
            image = self._held.by_name[name]
            block_tokens = self._rules.block_tokens
            end = min(image.tokens, int(request.num_tokens) - 1)
            first = (end - restored_tokens) // block_tokens
            blocks = tuple(table)[first : -(-end // block_tokens)]
            self._into.append(SwapIn(image.id, first - image.first_block, blocks))
            self.swapped_in += 1
            if self.ledger is not None:
                self.ledger.swapped_in(name, restored_tokens)
        self._watch.forget(name)
        self._forget_image(name)

    # A step.

    def orders(self, overwritten: Callable[[int], bool] = lambda _: False) -> Orders:
        """What the workers do in the step that has just been planned. `overwritten`: blocks written to before any gather."""
        self._step += 1
        # Its scatter was ordered in an earlier step, or nothing of it was wanted any more.
        into, self._into = tuple(self._into), []
        loading = {one.image for one in into}
        drop = [image for image in self._drop if image.id not in loading]
        self._drop = [image for image in self._drop if image.id in loading]
        for image in drop:
            self._released(image)
        out: list[SwapOut] = []
        for left in self._watch.take_due():
            if any(map(overwritten, left.block_ids)):
                continue
            order = self._swap_out(left, {one.image for one in out}, drop)
            if order is not None:
                out.append(order)
        unstage, prefetch = self._staging.orders(self._held.by_id)
        reset, self._reset = self._reset, False
        dropped = tuple(image.id for image in drop)
        return Orders(self._step, reset, dropped, tuple(out), unstage, prefetch, into)

    def reported(self, report: Report) -> None:
        for image_id, ranks in report.staged.items():
            image = self._held.by_id.get(image_id)
            if image is not None:
                image.ranks_staged += ranks
        for image_id, ranks in report.left.items():
            self._ring.left(image_id, ranks)
        for image_id in report.lost:
            image = self._held.by_id.get(image_id)
            if image is not None:
                self._forget_image(image.request_id)
        for image_id, moved_us in report.moved_us.items():
            owner = self._owners.get(image_id)
            if owner in self._contexts:
                self.context_us += moved_us
            elif owner is not None and self.ledger is not None:
                self.ledger.swap_took(owner, moved_us)

    def _swap_out(self, left: LeftBlocks, ordered: set[int], drop: list[Image]) -> SwapOut | None:
        rules = self._rules
        blocks = len(left.block_ids)
        tokens = left.tokens - left.first_block * rules.block_tokens
        image = Image(self._next_image, left.request_id, left.first_block, blocks, left.tokens, left.owner)
        image.left_us = self._contexts.get(left.request_id)

        def may_go(one: Image) -> bool:
            # A context on the device was brought back for a program that may never come.
            return one.id not in ordered and (one.is_context or not self._staging.needs(one))

        droppable = self._held.droppable(left.owner, blocks, self._costs, may_go)
        missing_slabs = (
            slabs_for(blocks) - self._held.free_slabs - sum(one.room for one in droppable if one.tokens == 0)
        )
        later = self._held.needed_later(image, missing_slabs, may_go)
        others = [one for one in droppable if self._held.by_id[one.id] not in later]
        free_slabs = self._held.free_slabs + sum(slabs_for(one.blocks) for one in later)
        wait_tokens = min(tokens, self._ring.blocks_waiting(blocks) * rules.block_tokens)
        choice = choose_swap(self._costs, tokens, wait_tokens, slabs_for(blocks), free_slabs, others)
        if choice is None:
            self.declined += 1
            return None
        for dropped in (*later, *(self._held.by_id[one.id] for one in choice)):
            del self._held.by_name[dropped.request_id]
            self.contexts_displaced += dropped.is_context
            self._released(dropped)
            drop.append(dropped)
            self.dropped += 1
        self._next_image += 1
        self._held.add(image)
        self._owners[image.id] = left.request_id
        self._owned.setdefault(left.request_id, []).append(image.id)
        self._ring.put(image.id, blocks)
        if rules.always:
            self._manager.block_pool.evict_blocks(set(left.block_ids))
        self.swapped_out += 1
        if self.ledger is not None and not image.is_context:
            self.ledger.swapped_out(left.request_id, tokens)
        return SwapOut(image.id, left.block_ids)

    def _gained(self, request: Any, first_block: int, tokens: int, cached_tokens: int) -> int:
        """Tokens beyond the cached ones; 0 where computing them takes less, or where those before them are not cached."""
        gained = min(tokens, int(request.num_tokens) - 1) - cached_tokens
        if gained <= 0 or cached_tokens < first_block * self._rules.block_tokens:
            return 0
        return gained if restore_gain_us(self._costs, gained) > 0 else 0

    def _disown(self, name: str) -> None:
        for image in self._owned.pop(name, ()):
            del self._owners[image]

    def _forget_image(self, request_id: str) -> None:
        """The workers drop it with the next orders that do not use it; until then it takes its room."""
        image = self._held.over(request_id)
        if image is not None:
            self._drop.append(image)

    def _released(self, image: Image) -> None:
        self._held.release(image)
        self._ring.forget(image.id)
        self._staging.left(image)


def _is_own(block: Any) -> bool:
    return not block.is_null and block.ref_cnt == 1
