"""KV blocks that are kept for programs whose tools run: references of ours on vLLM's blocks.

vLLM gives out a block only when nobody refers to it. With the prefix cache on, the program's next call finds its blocks there.
With it off vLLM looks nothing up. Then the blocks are put in front of the free list when vLLM asks the connector what the call
has elsewhere, so that the allocation which follows takes exactly them, in order (`BlockPool.free_blocks` puts blocks without a
hash in front, `get_new_blocks` takes from there). If vLLM then does not admit the call, they are taken back after the step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Pin:
    blocks: tuple[Any, ...]
    #: They lie in front of the free list, for the call that vLLM is about to admit.
    is_offered: bool = False


class PinnedBlocks:
    def __init__(self, scheduler: Any) -> None:
        manager = scheduler.kv_cache_manager
        self._pool = manager.block_pool
        self.prefix_cache = bool(manager.enable_caching)
        self._block_tokens = int(scheduler.block_size)
        self._pins: set[Pin] = set()
        #: By request, what a call that has come may take over; of it, blocks whose tokens its prompt begins with.
        self._for_calls: dict[str, tuple[Pin, int]] = {}
        self._offered: str | None = None

    @property
    def all_pins(self) -> Collection[Pin]:
        return self._pins

    @property
    def blocks(self) -> int:
        """That are kept."""
        return sum(len(pin.blocks) for pin in self._pins)

    def pin(self, blocks: Sequence[Any]) -> Pin:
        """The blocks are referred to by a call, or free."""
        self._pool.touch(blocks)
        pin = Pin(tuple(blocks))
        self._pins.add(pin)
        return pin

    def unpin(self, pin: Pin) -> None:
        """They are free, if nobody else refers to them. The last ones go first, as vLLM frees a call's blocks."""
        if pin not in self._pins:
            # A call has taken it over.
            return
        self._pins.remove(pin)
        if not pin.is_offered:
            self._pool.free_blocks(reversed(pin.blocks))

    def keep_for(self, request_id: str, pin: Pin, blocks: int) -> None:
        """The call that has come goes on from the first `blocks` blocks."""
        self._for_calls[request_id] = (pin, blocks)

    def forget_call(self, request_id: str) -> None:
        self._for_calls.pop(request_id, None)

    # Where vLLM looks nothing up.

    def own_blocks(self, request: Any) -> int:
        """Blocks that a call that waits would take over when it is admitted."""
        if self.prefix_cache or request.skip_reading_prefix_cache:
            return 0
        _, blocks = self._for_calls.get(request.request_id, (None, 0))
        # The last token of a call is always computed.
        return min(blocks, (int(request.num_tokens) - 1) // self._block_tokens)

    def offer(self, request: Any) -> int:
        """vLLM is about to allocate the blocks of a call. Tokens of it that need not be computed."""
        blocks = self.own_blocks(request)
        if blocks == 0:
            return 0
        self.take_back()
        pin, _ = self._for_calls[request.request_id]
        self._pool.free_blocks(pin.blocks[blocks:])
        self._pool.free_blocks(pin.blocks[:blocks])
        pin.is_offered = True
        self._offered = request.request_id
        return blocks * self._block_tokens

    def adopted(self, request: Any, table: Sequence[int]) -> bool | None:
        """vLLM has given the call its blocks. Whether it counts on those that were offered and got them; None: no offer."""
        if self._offered != request.request_id:
            return None
        self._offered = None
        blocks = self.own_blocks(request)
        pin, _ = self._for_calls.pop(request.request_id)
        self._pins.discard(pin)
        wanted = [block.block_id for block in pin.blocks[:blocks]]
        return list(table[: len(wanted)]) == wanted

    def take_back(self) -> None:
        """The step is planned: what was offered and not taken is kept again."""
        request_id, self._offered = self._offered, None
        if request_id is None:
            return
        pin, blocks = self._for_calls[request_id]
        kept = 0
        while kept < len(pin.blocks) and pin.blocks[kept].ref_cnt == 0:
            kept += 1
        pin.blocks = pin.blocks[:kept]
        pin.is_offered = False
        self._pool.touch(pin.blocks)
        self._for_calls[request_id] = (pin, min(blocks, kept))
