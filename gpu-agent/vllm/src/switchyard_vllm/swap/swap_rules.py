"""What the scheduler's side of the swap is given: what it goes by, and where it writes down what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..handling.swap_choice import HandlingCosts
from .image import ImageOwner

#: Swaps at any cost. An image is worth its tokens.
ALWAYS = HandlingCosts(0, 0, 0, 1)


class SwapLedger(Protocol):
    """Whose calls are, and where what they swap is written down."""

    def swapped_out(self, request_id: str, tokens: int) -> None: ...

    def swapped_in(self, request_id: str, tokens: int) -> None: ...

    def swap_took(self, request_id: str, swap_us: int) -> None: ...

    def owner_of(self, request_id: str) -> ImageOwner: ...


@dataclass(frozen=True, slots=True)
class SwapRules:
    costs: HandlingCosts
    #: Slabs of the arena of each worker.
    arena_slabs: int
    #: Blocks of the ring of each worker through which images leave.
    ring_blocks: int
    #: Blocks that can wait on the device of each worker.
    prefetch_blocks: int
    #: Workers, each of which holds its part of every image.
    ranks: int
    block_tokens: int
    #: Every preempted call is swapped as soon as it is preempted, and its blocks leave the prefix cache. For tests.
    always: bool = False
