"""The blocks that preempted calls left behind, until an allocation takes one.

A free block keeps its KV until it is given out again. While there is room, a preempted call comes back to find its blocks
in the prefix cache, and a copy would have been for nothing. So a call's blocks are watched, and once one of them is given
out, the call is due: all of its blocks still hold what they held, until the forward pass of the step that is being planned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .image import NOBODY, ImageOwner


@dataclass(frozen=True, slots=True, eq=False)
class LeftBlocks:
    """Of one call, from its first block that no other call used to the last one that is computed."""

    request_id: str
    #: Position of the first in the call's table of blocks.
    first_block: int
    block_ids: tuple[int, ...]
    #: Of the call, that are computed: those of its shared blocks included.
    tokens: int
    owner: ImageOwner = NOBODY


class BlockWatch:
    def __init__(self, pool: Any) -> None:
        """`pool`: vLLM's block pool, of which `get_new_blocks` is watched: no other method gives a block out for writing."""
        self._pool = pool
        self._get_new_blocks = pool.get_new_blocks
        self._left: dict[str, LeftBlocks] = {}
        #: Calls that left a block there. A block may be of several: who finds it in the prefix cache can be preempted too.
        self._by_block: dict[int, list[LeftBlocks]] = {}
        self._due: list[LeftBlocks] = []
        pool.get_new_blocks = self._watched

    def __len__(self) -> int:
        return len(self._left)

    @property
    def watched_blocks(self) -> int:
        return len(self._by_block)

    def stop(self) -> None:
        """The pool is as it was."""
        self._pool.get_new_blocks = self._get_new_blocks
        self.clear()

    def clear(self) -> None:
        self._left.clear()
        self._by_block.clear()
        self._due.clear()

    def leave(self, left: LeftBlocks) -> None:
        self._left[left.request_id] = left
        for block_id in left.block_ids:
            self._by_block.setdefault(block_id, []).append(left)

    def of(self, request_id: str) -> LeftBlocks | None:
        return self._left.get(request_id)

    def forget(self, request_id: str) -> None:
        left = self._left.get(request_id)
        if left is not None:
            self._unwatch(left)
        self._due = [one for one in self._due if one.request_id != request_id]

    def rename(self, request_id: str, other_id: str, tokens: int, block_tokens: int) -> None:
        """What the one left is the other's, up to so many tokens."""
        left = self._left.get(request_id)
        if left is None:
            return
        self._unwatch(left)
        own = left.block_ids[: max(0, tokens // block_tokens - left.first_block)]
        if own:
            self.leave(LeftBlocks(other_id, left.first_block, own, min(tokens, left.tokens), left.owner))

    def call_due(self, request_id: str) -> None:
        """As if one of its blocks had been given out."""
        left = self._left.get(request_id)
        if left is not None:
            self._taken(left)

    def is_due(self, request_id: str) -> bool:
        return any(left.request_id == request_id for left in self._due)

    def take_due(self) -> list[LeftBlocks]:
        """Calls of which a block was given out since the last time, the first one first."""
        due, self._due = self._due, []
        return due

    def _watched(self, num_blocks: int) -> Any:
        blocks = self._get_new_blocks(num_blocks)
        if self._by_block:
            for left in self._of_blocks(blocks):
                self._taken(left)
        return blocks

    def _of_blocks(self, blocks: Iterable[Any]) -> list[LeftBlocks]:
        lists = (self._by_block.get(block.block_id, ()) for block in blocks)
        return list(dict.fromkeys(left for lefts in lists for left in lefts))

    def _taken(self, left: LeftBlocks) -> None:
        self._unwatch(left)
        self._due.append(left)

    def _unwatch(self, left: LeftBlocks) -> None:
        del self._left[left.request_id]
        for block_id in left.block_ids:
            lefts = self._by_block[block_id]
            lefts.remove(left)
            if not lefts:
                del self._by_block[block_id]
