"""Device memory in which prefetched images wait for their blocks. Room is taken and given back in any order, so an image that
waits long keeps no more than its own.

Rows that were given back may still be read by a stream. So their next user gets the fences to wait for first.
"""

from __future__ import annotations

from typing import Any

from .slab_pool import SlabPool, runs
from .staging_ring import Segment
from .streams import Fence


class StagingArea:
    def __init__(self, buffer: Any) -> None:
        """`buffer`: [rows, block_bytes]."""
        self._buffer = buffer
        self._pool = SlabPool(int(buffer.shape[0]))
        #: Ranges that were given back, while they may still be read.
        self._read: list[tuple[Segment, Fence]] = []

    @property
    def free_rows(self) -> int:
        return self._pool.free

    def take(self, rows: int) -> list[Segment] | None:
        """As few ranges as there are. None: not so many rows are free."""
        taken = self._pool.take(rows)
        if taken is None:
            return None
        self._read = [(segment, fence) for segment, fence in self._read if not fence.done()]
        return [self._segment(first, last) for first, last in runs(taken)]

    def view(self, segment: Segment) -> Any:
        return segment.of(self._buffer)

    def give_back(self, segment: Segment, fence: Fence | None) -> None:
        """`fence`: done once the range is not used any more. None: it is not in use."""
        segment.end()
        self._pool.give_back(range(segment.start, segment.start + segment.rows))
        if fence is not None:
            self._read.append((segment, fence))

    def _segment(self, first: int, last: int) -> Segment:
        after = [fence for read, fence in self._read if read.start < last and first < read.start + read.rows]
        return Segment(first, last - first, after)
