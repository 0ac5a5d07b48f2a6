"""Host memory that holds images: one buffer, cut into slabs, pinned where there is CUDA.

A place may be given back while a transfer still uses it. Its next image is written by the same stream as the one before it. An
image that was swapped in was read before the gather of any later image. What is read of one that was not is never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .slab_pool import SLAB_BLOCKS, SlabPool, slabs_for


class CannotPinError(RuntimeError):
    """The system does not let us pin the arena."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an image lies."""

    slabs: tuple[int, ...]
    rows: int


class HostArena:
    def __init__(self, blocks: int, block_bytes: int, *, pinned: bool) -> None:
        """Holds `blocks` blocks, rounded down to whole slabs. Raises CannotPinError."""
        slabs = blocks // SLAB_BLOCKS
        if slabs < 1:
            raise ValueError(f"The arena holds {SLAB_BLOCKS} blocks at least, not {blocks}.")
        self._pool = SlabPool(slabs)
        self._buffer = torch.empty((slabs * SLAB_BLOCKS, block_bytes), dtype=torch.uint8)
        self._pinned = pinned
        if pinned:
            _pin(self._buffer)

    @property
    def slabs(self) -> int:
        return self._pool.slabs

    @property
    def free_slabs(self) -> int:
        return self._pool.free

    def take(self, rows: int) -> Place | None:
        """None: no room."""
        slabs = self._pool.take(slabs_for(rows))
        return None if slabs is None else Place(tuple(slabs), rows)

    def give_back(self, place: Place) -> None:
        self._pool.give_back(place.slabs)

    def ranges(self, place: Place, first_row: int, rows: int) -> list[tuple[int, Any]]:
        """Rows of an image as (row of the image, contiguous view) in order, as few as there are."""
        pieces: list[tuple[int, Any]] = []
        row = first_row
        while row < first_row + rows:
            slab = row // SLAB_BLOCKS
            last = slab
            while last + 1 < len(place.slabs) and place.slabs[last + 1] == place.slabs[last] + 1:
                last += 1
            end = min(first_row + rows, (last + 1) * SLAB_BLOCKS)
            start = place.slabs[slab] * SLAB_BLOCKS + row % SLAB_BLOCKS
            pieces.append((row, self._buffer[start : start + end - row]))
            row = end
        return pieces

    def close(self) -> None:
        """Call once, when no transfer runs."""
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self._buffer.data_ptr())
            self._pinned = False


def _pin(buffer: Any) -> None:
    # `pin_memory=True` takes the next power of two.
    error = torch.cuda.cudart().cudaHostRegister(buffer.data_ptr(), buffer.numel(), 0)
    if int(error) != 0:
        raise CannotPinError(
            f"The host's {buffer.numel() / 2**30:.1f} GiB for swapped KV cannot be pinned ({error}). Make it smaller."
        )
