"""The images in the arena, the slabs that they take, and which of them may be dropped to make room for another.

Tenants share the arena by weight. An image of one tenant is dropped for another tenant only while the first uses more
than its share, so one tenant's forecasts or preempted calls never cost another its images. Which images are dropped:

- Of another tenant, beyond its share: contexts of programs whose tools run count as worth nothing, so they go first.
  Otherwise the tenant that comes first with large contexts would keep all room.
- Of the same tenant: a context makes room for a call, and for a context that is needed sooner. The one needed last goes
  first. A program that has ended is overdue, like one whose tool runs longer than forecast.
- Otherwise the images that are worth least (handling/swap_choice.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import takewhile

from ..handling.swap_choice import HandlingCosts, HeldImage, least_worth_first
from .image import Image, ImageOwner
from .slab_pool import slabs_for


class HeldImages:
    def __init__(self, slabs: int, block_tokens: int) -> None:
        self._slabs = slabs
        self._block_tokens = block_tokens
        #: By call or context: those that may still be asked for.
        self.by_name: dict[str, Image] = {}
        #: All images that take room.
        self.by_id: dict[int, Image] = {}
        self.used_slabs = 0

    @property
    def free_slabs(self) -> int:
        return self._slabs - self.used_slabs

    def add(self, image: Image) -> None:
        self.by_name[image.request_id] = self.by_id[image.id] = image
        self.used_slabs += slabs_for(image.blocks)

    def rename(self, image: Image, name: str) -> None:
        del self.by_name[image.request_id]
        image.request_id = name
        self.by_name[name] = image

    def over(self, name: str) -> Image | None:
        """Marks that nothing more will be asked of it. It keeps its room until it is released."""
        image = self.by_name.pop(name, None)
        if image is not None:
            image.is_over = True
        return image

    def release(self, image: Image) -> None:
        del self.by_id[image.id]
        self.used_slabs -= slabs_for(image.blocks)

    def clear(self) -> None:
        self.by_name.clear()
        self.by_id.clear()
        self.used_slabs = 0

    def droppable(
        self, owner: ImageOwner, blocks: int, costs: HandlingCosts, may_go: Callable[[Image], bool]
    ) -> list[HeldImage]:
        """Images, among those that `may_go`, that may be dropped for an image of `owner` with `blocks` blocks."""
        of_tenants: dict[str, list[Image]] = {}
        for image in self.by_name.values():
            of_tenants.setdefault(image.owner.tenant, []).append(image)
        own_images = of_tenants.pop(owner.tenant, [])
        own = (slabs_for(blocks) + sum(slabs_for(image.blocks) for image in own_images)) / owner.weight
        found = self._held(filter(may_go, own_images))
        for images in of_tenants.values():
            found += self._beyond(own, images, costs, may_go)
        return found

    def needed_later(self, asks: Image, missing_slabs: int, may_go: Callable[[Image], bool]) -> list[Image]:
        """Contexts of the same tenant that are needed later than `asks`, the latest first, until there is room."""
        needed_us = _left_us(asks)
        own = (one for one in self.by_name.values() if one.is_context and one.owner.tenant == asks.owner.tenant)
        later = [(_left_us(one), one) for one in filter(may_go, own)] if missing_slabs > 0 else []
        found: list[Image] = []
        for left_us, image in sorted(later, key=lambda one: (-one[0], one[1].id)):
            if missing_slabs <= 0 or left_us <= needed_us:
                break
            found.append(image)
            missing_slabs -= slabs_for(image.blocks)
        return found

    def _beyond(
        self, share: float, images: list[Image], costs: HandlingCosts, may_go: Callable[[Image], bool]
    ) -> list[HeldImage]:
        """Images of another tenant, the least valuable first, while it has more than this share for its weight.

        Contexts among them count as worth nothing.
        """
        weight = images[-1].owner.weight
        left_slabs = sum(slabs_for(image.blocks) for image in images)

        def has_more(image: HeldImage) -> bool:
            nonlocal left_slabs
            more = left_slabs / weight > share
            left_slabs -= image.room
            return more

        beyond = takewhile(has_more, least_worth_first(costs, self._held(filter(may_go, images))))
        return [replace(one, tokens=0) if self.by_id[one.id].is_context else one for one in beyond]

    def _held(self, images: Iterable[Image]) -> list[HeldImage]:
        return [HeldImage(one.id, one.own_tokens(self._block_tokens), slabs_for(one.blocks)) for one in images]


def _left_us(image: Image) -> float:
    """A call needs its image as soon as it can be admitted."""
    return 0 if image.left_us is None else image.left_us()
