"""An image as the scheduler's side knows it: the KV of a preempted call's own blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class ImageOwner(NamedTuple):
    """The tenant whose KV it is. Its share of the room grows with its weight."""

    tenant: str
    weight: float


#: Of calls of which the plug-in does not know the tenant.
NOBODY = ImageOwner("", 1.0)


@dataclass(slots=True, eq=False)
class Image:
    id: int
    request_id: str
    first_block: int
    blocks: int
    #: Of the call, up to the image's end.
    tokens: int
    owner: ImageOwner = NOBODY
    #: Of a program whose tool runs, for how long it is expected to be away still. None: an open call waits for it.
    left_us: Callable[[], float] | None = None
    #: Nothing more is asked of it: its call was admitted or has ended, or it is lost.
    is_over: bool = False
    # Written by staging.py.
    #: Is on its way to the device, or there.
    wanted: bool = False
    ranks_staged: int = 0
    #: When its call was last asked about, as a count of such questions: the first one of a step.
    asked: int = 0

    @property
    def is_context(self) -> bool:
        return self.left_us is not None

    def own_tokens(self, block_tokens: int) -> int:
        return self.tokens - self.first_block * block_tokens
