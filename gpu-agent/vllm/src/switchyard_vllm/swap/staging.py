"""Which images are brought back to the device, to wait there for their blocks, and which make room for them.

Room goes to images in the order in which their calls are asked about in a step, which is that of the seats. An image that has
room gives it to one that comes before it, and first if its call was not asked about at all: it has lost its seat. It is
still on the host, and is brought back when its turn comes. Workers count the room alike (staging_area.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .image import Image

#: In place of a count of questions: behind all that were asked about.
EXPECTED = 1 << 62


class Staging:
    def __init__(self, blocks: int, ranks: int) -> None:
        """`blocks`: that can wait on the device of each of `ranks` workers."""
        self._room = StagingRoom(blocks)
        self._ranks = ranks
        #: Questions so far, and before the step that is being planned.
        self._asked = 0
        self._asked_before = 0
        #: By id, those that are to be brought there. In the order of the questions.
        self._missing: dict[int, Image] = {}

    @property
    def held_blocks(self) -> int:
        return self._room.held_blocks

    def asked(self, image: Image) -> None:
        """Its call may be admitted in this step."""
        if image.asked <= self._asked_before:
            self._asked += 1
            image.asked = self._asked

    def is_staged(self, image: Image) -> bool:
        """It is on all devices."""
        return image.ranks_staged >= self._ranks

    def lacks(self, blocks: int) -> bool:
        """There is no free room for so many."""
        return self._room.lacks(blocks)

    def expected(self, image: Image) -> None:
        """Its call may come soon. It makes no room for itself, and makes room for any other."""
        image.asked = EXPECTED
        self._missing[image.id] = image

    def ready(self, image: Image) -> bool:
        """Whether it can be restored in this step. If not, it is brought to the device as soon as there is room."""
        if self.is_staged(image):
            return True
        if not image.wanted:
            self._missing[image.id] = image
        return False

    def needs(self, image: Image) -> bool:
        """It is on the device, or on its way there, or is to be."""
        return image.wanted or image.id in self._missing

    def orders(self, held: Mapping[int, Image]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Images that give up their room on the device in the step that was planned, and those that are brought there.

        One that finds no room is asked for again. One that is larger than all the room comes in through the ring.
        """
        unstage: list[int] = []
        prefetch: list[int] = []
        for image in self._missing.values():
            if image.is_over or image.id not in held:
                continue
            if image.blocks <= self._room.blocks:
                leaving = self._room.enter(image.id, image.blocks, self._behind(image, held))
                if leaving is None:
                    continue
                for left in leaving:
                    held[left].wanted = False
                    held[left].ranks_staged = 0
                unstage += leaving
            image.wanted = True
            prefetch.append(image.id)
        self._missing.clear()
        self._asked_before = self._asked
        return tuple(unstage), tuple(prefetch)

    def left(self, image: Image) -> None:
        """The workers drop it in this step."""
        self._room.leave(image.id)

    def clear(self) -> None:
        self._missing.clear()
        self._room.clear()

    def _behind(self, image: Image, held: Mapping[int, Image]) -> list[int]:
        """Images on all devices that come after it: those not asked about in this step, the longest ago first, then from
        the last that was."""
        if not self._room.lacks(image.blocks):
            return []
        waiting = [held[name] for name in self._room.images if not held[name].is_over]
        staged = [one for one in waiting if self.is_staged(one)]
        idle = sorted((one.asked, one.id) for one in staged if one.asked <= self._asked_before)
        worse = sorted((-one.asked, one.id) for one in staged if one.asked > image.asked)
        return [name for _, name in (*idle, *worse)]


class StagingRoom:
    """Blocks of the device that images have."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._held: dict[int, int] = {}
        self._held_blocks = 0

    @property
    def images(self) -> Iterable[int]:
        return self._held

    @property
    def held_blocks(self) -> int:
        return self._held_blocks

    def lacks(self, blocks: int) -> bool:
        return self._held_blocks + blocks > self.blocks

    def enter(self, image: int, blocks: int, others: Iterable[int] = ()) -> list[int] | None:
        """`others`: images that may leave, in the order in which they do. Returns those that leave. None: all of them would
        not be enough, and none leaves."""
        leaving: list[int] = []
        missing_blocks = self._held_blocks + blocks - self.blocks
        for other in others:
            if missing_blocks <= 0:
                break
            leaving.append(other)
            missing_blocks -= self._held[other]
        if missing_blocks > 0:
            return None
        for other in leaving:
            self.leave(other)
        self._held[image] = blocks
        self._held_blocks += blocks
        return leaving

    def leave(self, image: int) -> None:
        self._held_blocks -= self._held.pop(image, 0)

    def clear(self) -> None:
        self._held.clear()
        self._held_blocks = 0
