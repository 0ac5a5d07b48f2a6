"""Which slabs of the host arena are in use. An image takes whole slabs, adjacent ones if there are any.

No torch: the scheduler decides whether an image fits, and workers store it. Both count in slabs, so they agree: an image fits
if enough slabs are free, adjacent or not.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

#: Blocks in a slab. A block of a 70B model on eight GPUs is 640 KiB, of an 8B model 2 MiB. A slab is copied at full
#: speed, and an image wastes half of one on average.
SLAB_BLOCKS = 8


def slabs_for(blocks: int) -> int:
    """Slabs that an image of so many blocks takes."""
    return -(-blocks // SLAB_BLOCKS)


class SlabPool:
    """Taking and giving back cost as much as there are gaps between images, however large the pool."""

    def __init__(self, slabs: int) -> None:
        self.slabs = slabs
        self.free = slabs
        #: (first, one past the last), ascending. No two of them touch.
        self._gaps = [(0, slabs)]

    def take(self, count: int) -> list[int] | None:
        """Ascending. None: not so many are free."""
        if count > self.free:
            return None
        taken: list[int] = []
        for first, last in self._best_gaps(count):
            end = min(last, first + count - len(taken))
            taken += range(first, end)
            self._gaps.remove((first, last))
            if end < last:
                insort(self._gaps, (end, last))
        self.free -= count
        return taken

    def give_back(self, slabs: Iterable[int]) -> None:
        for first, last in runs(slabs):
            place = bisect_right(self._gaps, (first, last))
            before = self._gaps[place - 1] if place > 0 else (-1, -1)
            after = self._gaps[place] if place < len(self._gaps) else (self.slabs + 1, self.slabs + 1)
            if before[1] > first or after[0] < last:
                raise ValueError(f"Some of slabs {first} to {last - 1} are free already.")
            self.free += last - first
            joins_before, joins_after = before[1] == first, after[0] == last
            gap = (before[0] if joins_before else first, after[1] if joins_after else last)
            self._gaps[place - joins_before : place + joins_after] = [gap]

    def _best_gaps(self, count: int) -> list[tuple[int, int]]:
        """The smallest gap in which so many fit, or else as many gaps as it takes, from the first on."""
        fitting = [gap for gap in self._gaps if gap[1] - gap[0] >= count]
        if fitting:
            return [min(fitting, key=lambda gap: gap[1] - gap[0])]
        gaps: list[tuple[int, int]] = []
        for gap in self._gaps:
            if count <= 0:
                break
            gaps.append(gap)
            count -= gap[1] - gap[0]
        return gaps


def runs(slabs: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, one past the last) of each run of adjacent ones."""
    ordered = sorted(slabs)
    first = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            yield ordered[first], ordered[index - 1] + 1
            first = index
