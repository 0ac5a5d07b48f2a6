"""Device memory that images pass through: rows of one block each, taken in order, with a fence for each range given back.

A range that was given back may still be read by a stream. So its next user gets the fences to wait for first. Ranges are
given back in any order; one that is not back yet is in the way of `take`, which then returns what is free before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .streams import Fence


@dataclass(slots=True, eq=False)
class Segment:
    start: int
    rows: int
    #: What the stream that writes here waits for.
    after: list[Fence] = field(default_factory=list)
    #: Set once it was given back.
    fence: Fence | None = None
    back: bool = False

    def of(self, buffer: Any) -> Any:
        """Its rows of the buffer."""
        return buffer[self.start : self.start + self.rows]

    def end(self) -> None:
        if self.back:
            raise ValueError("This range was given back already.")
        self.back = True


class StagingRing:
    def __init__(self, buffer: Any) -> None:
        """`buffer`: [rows, block_bytes]."""
        self._buffer = buffer
        self.rows = int(buffer.shape[0])
        if self.rows < 1:
            raise ValueError("A staging ring holds one block at least.")
        self._next = 0
        #: The oldest first. They cover the ring once at most.
        self._segments: deque[Segment] = deque()

    @property
    def free_rows(self) -> int:
        """Rows that `take` could give out, in one range or two."""
        free = self.rows - sum(segment.rows for segment in self._segments)
        for segment in self._segments:
            if not segment.back:
                break
            free += segment.rows
        return free

    def take(self, rows_max: int) -> Segment | None:
        """The next free range, of `rows_max` rows at most. None: the row that is next is not given back."""
        if self._next == self.rows:
            self._next = 0
        taken = Segment(self._next, 0)
        rows = min(rows_max, self.rows - self._next, self.free_rows)
        if rows < 1:
            return None
        taken.rows = rows
        self._make_room(taken)
        self._segments.append(taken)
        self._next += rows
        return taken

    @property
    def ready_rows(self) -> int:
        """Rows from the next on that are not in use any more."""
        start = 0 if self._next == self.rows else self._next
        used = sum(segment.rows for segment in self._segments)
        ready = self.rows - used
        for segment in self._segments:
            if not segment.back or (segment.fence is not None and not segment.fence.done()):
                break
            ready += segment.rows
        return min(ready, self.rows - start)

    def split(self, segment: Segment, rows: int) -> list[Segment]:
        """A range that was just taken, as ranges of `rows` rows at most that are given back one by one."""
        if not self._segments or self._segments[-1] is not segment:
            raise ValueError("Only the range that was taken last can be split.")
        self._segments.pop()
        parts = [
            Segment(start, min(rows, segment.start + segment.rows - start))
            for start in range(segment.start, segment.start + segment.rows, rows)
        ]
        self._segments.extend(parts)
        return parts

    def view(self, segment: Segment) -> Any:
        return segment.of(self._buffer)

    def give_back(self, segment: Segment, fence: Fence | None) -> None:
        """`fence`: done once the range is not used any more. None: it is not in use."""
        segment.end()
        segment.fence = fence

    def _make_room(self, taken: Segment) -> None:
        """Takes the rows from the oldest segments, all given back, and their fences with them."""
        total = sum(segment.rows for segment in self._segments)
        excess = total + taken.rows - self.rows
        while excess > 0:
            oldest = self._segments[0]
            if oldest.fence is not None and not oldest.fence.done():
                taken.after.append(oldest.fence)
            if oldest.rows > excess:
                oldest.rows -= excess
                oldest.start += excess
                return
            excess -= oldest.rows
            self._segments.popleft()
