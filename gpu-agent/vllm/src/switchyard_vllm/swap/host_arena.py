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
    def __init__(self, buffer: Any) -> None:
        """`buffer`: [blocks, block_bytes] of host memory. Blocks beyond the last whole slab are not used."""
        slabs = buffer.shape[0] // SLAB_BLOCKS
        if slabs < 1:
            raise ValueError(f"The arena holds {SLAB_BLOCKS} blocks at least, not {buffer.shape[0]}.")
        self._pool = SlabPool(slabs)
        self._buffer = buffer

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


class HostBuffer:
    """Host memory that is given back when it is closed."""

    def __init__(self, size_bytes: int, *, pinned: bool) -> None:
        """Raises CannotPinError."""
        self.bytes = torch.empty(size_bytes, dtype=torch.uint8)
        self._pinned = False
        if not pinned:
            return
        # `pin_memory=True` would take the next power of two.
        error = torch.cuda.cudart().cudaHostRegister(self.bytes.data_ptr(), size_bytes, 0)
        if error != torch.cuda.cudart().cudaError.success:
            raise CannotPinError(
                f"Cannot pin {size_bytes / 2**30:.1f} GiB of host memory for swapped KV ({error}). Give it less, or raise the "
                "limit of locked memory."
            )
        self._pinned = True

    def close(self) -> None:
        """Call when no transfer runs."""
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self.bytes.data_ptr())
            self._pinned = False
