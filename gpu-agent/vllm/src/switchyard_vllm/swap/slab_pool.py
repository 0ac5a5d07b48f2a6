"""Which slabs of the host arena are in use. An image takes whole slabs, adjacent ones if there are any.

No torch: the scheduler decides whether an image fits, and workers store it. Both count in slabs, so they agree: an image fits
if enough slabs are free, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Blocks in a slab. A block of a 70B model on eight GPUs is 640 KiB, of an 8B model 2 MiB. A slab is copied at full
#: speed, and an image wastes half of one on average.
SLAB_BLOCKS = 8


def slabs_for(blocks: int) -> int:
    """Slabs that an image of so many blocks takes."""
    return -(-blocks // SLAB_BLOCKS)


class SlabPool:
    def __init__(self, slabs: int) -> None:
        self.slabs = slabs
        self._free = set(range(slabs))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int] | None:
        """Ascending. None: not so many are free."""
        if count > len(self._free):
            return None
        taken = self._adjacent(count) or sorted(self._free)[:count]
        self._free.difference_update(taken)
        return taken

    def give_back(self, slabs: Iterable[int]) -> None:
        slabs = set(slabs)
        if slabs & self._free:
            raise ValueError(f"Slabs {sorted(slabs & self._free)} are free already.")
        self._free |= slabs

    def _adjacent(self, count: int) -> list[int] | None:
        """The smallest gap in which so many fit."""
        best: list[int] | None = None
        run: list[int] = []
        for slab in [*sorted(self._free), -1]:
            if run and slab == run[-1] + 1:
                run.append(slab)
                continue
            if len(run) >= count and (best is None or len(run) < len(best)):
                best = run
            run = [slab]
        return best[:count] if best is not None else None
