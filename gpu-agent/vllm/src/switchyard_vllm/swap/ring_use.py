"""How full the rings are through which images leave, as far as the scheduler's side knows.

What was put into a ring counts until all workers have said that it is on the host, which they do a step or two after it is. A
forward pass does not wait for an image that finds room. For each block that does not, it waits until the link has taken
another away.
"""

from __future__ import annotations


class RingUse:
    def __init__(self, blocks: int, ranks: int) -> None:
        """`blocks`: of the ring of one worker; `ranks`: workers, which all move the same blocks."""
        self._blocks = blocks
        self._ranks = ranks
        #: By image: its blocks, and the ranks on which it has not left yet.
        self._leaving: dict[int, tuple[int, int]] = {}
        self._used_blocks = 0

    @property
    def used_blocks(self) -> int:
        """More than there are, if an image is larger than the ring."""
        return self._used_blocks

    def blocks_waiting(self, blocks: int) -> int:
        """Of an image of so many blocks, those for which the forward pass would wait."""
        free_blocks = max(0, self._blocks - self._used_blocks)
        return max(0, blocks - free_blocks)

    def put(self, image: int, blocks: int) -> None:
        self._leaving[image] = (blocks, self._ranks)
        self._used_blocks += blocks

    def left(self, image: int, ranks: int) -> None:
        """It is on the host of so many ranks more."""
        if image not in self._leaving:
            return
        blocks, ranks_left = self._leaving[image]
        if ranks >= ranks_left:
            self.forget(image)
        else:
            self._leaving[image] = (blocks, ranks_left - ranks)

    def forget(self, image: int) -> None:
        """It has left, or the workers were told to drop it and say no more of it."""
        blocks, _ = self._leaving.pop(image, (0, 0))
        self._used_blocks -= blocks

    def clear(self) -> None:
        self._leaving.clear()
        self._used_blocks = 0
