"""One context of a program whose tool runs, as tool_contexts.py keeps it, and which of them is due first. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Literal, Protocol

from .handling.waste import Handling
from .pinned_blocks import Pin
from .swap.image import ImageOwner

#: What is done with a context when its time comes.
Next = Literal["revise", "prefetch", "forget"]


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
    owner: ImageOwner
    #: None: it is not pinned.
    pin: Pin | None = None
    #: The swap watches it or has its image.
    is_left: bool = False
    next: Next = "forget"
    due_us: float = 0

    @property
    def name(self) -> str:
        """Of its image. No request has a name with this in it."""
        return f"\0{self.number}"

    @property
    def own_block_ids(self) -> tuple[int, ...]:
        return tuple(block.block_id for block in self.blocks[self.first_own :])

    def left_us(self, now_us: int) -> float:
        """What is overdue is expected to last as long again as it has lasted."""
        away_us = now_us - self.since_us
        return self.expected_us - away_us if away_us <= self.expected_us else away_us

    def common_blocks(self, hashes: Sequence[Any]) -> int:
        """Blocks of a prompt that are those of the context. A block's hash covers the blocks before it."""
        same = min(len(self.hashes), len(hashes))
        while same > 0 and self.hashes[same - 1] != hashes[same - 1]:
            same -= 1
        return same


def last_needed(contexts: Sequence[ToolContext], now_us: int) -> ToolContext:
    """Of the tenant whose contexts take most for its weight, the one that is needed last. There is at least one."""
    held: dict[str, float] = {}
    for context in contexts:
        owner = context.owner
        held[owner.tenant] = held.get(owner.tenant, 0) + context.tokens / owner.weight
    return max(contexts, key=lambda one: (held[one.owner.tenant], one.owner.tenant, one.left_us(now_us), one.number))


class SwapOfContexts(Protocol):
    """What is asked of the KV swap (swap/connector.py). Names are of contexts, and no request has one of them."""

    def leave_context(
        self,
        name: str,
        first_block: int,
        block_ids: tuple[int, ...],
        tokens: int,
        owner: ImageOwner,
        left_us: Callable[[], float],
    ) -> None: ...

    def prefetch_context(self, name: str) -> bool: ...

    def context_returns(self, name: str, request_id: str, tokens: int) -> None: ...

    def forget_context(self, name: str) -> None: ...

    def context_swap_us(self) -> int: ...

    def contexts_displaced(self) -> int: ...


class DueContexts:
    """When something is done with contexts. One that has gone, or has another time, is passed over."""

    def __init__(self, contexts: Mapping[str, ToolContext], contexts_max: int) -> None:
        """`contexts`: those that there are, by program."""
        self._contexts = contexts
        self._entries_max = 2 * contexts_max
        #: Due time, a number that is used once, and the context.
        self._due: list[tuple[float, int, ToolContext]] = []
        self._number = 0

    def set(self, context: ToolContext, then: Next, due_us: float) -> None:
        context.next = then
        context.due_us = due_us
        if len(self._due) >= self._entries_max:
            self._due = [entry for entry in self._due if self._is_due(*entry)]
            heapify(self._due)
        self._number += 1
        heappush(self._due, (due_us, self._number, context))

    def first(self) -> ToolContext | None:
        """None: nothing is due at any time."""
        while self._due and not self._is_due(*self._due[0]):
            heappop(self._due)
        return self._due[0][2] if self._due else None

    def take(self, now_us: int) -> ToolContext | None:
        """The next one whose time has come."""
        context = self.first()
        if context is None or context.due_us > now_us:
            return None
        heappop(self._due)
        return context

    def clear(self) -> None:
        self._due.clear()

    def _is_due(self, due_us: float, _number: int, context: ToolContext) -> bool:
        return self._contexts.get(context.program) is context and due_us == context.due_us
