"""Whether the KV of a preempted call is swapped out or computed again, and which images make room for it.

The same choice as `gpu-agent/engine/memory/handling/swap-choice.ts`, which also holds the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class HandlingCosts:
    """Times are linear in tokens. The engine's owner measures the constants, and corrects them while it serves."""

    base_us: float
    save_us_per_token: float
    restore_us_per_token: float
    #: Of computing a token's KV again, in a prefill of usual length.
    recompute_us_per_token: float


@dataclass(frozen=True, slots=True)
class HeldImage:
    """What may be dropped. `room` has the unit of the store's capacity: tokens, or blocks."""

    id: int
    tokens: int
    room: int


#: The images to drop for it; None: the call's KV is computed again.
SwapChoice = tuple[HeldImage, ...] | None


def swap_us(costs: HandlingCosts, tokens: int) -> float:
    """Time to move KV out and back."""
    return 2 * costs.base_us + tokens * (costs.save_us_per_token + costs.restore_us_per_token)


def restore_gain_us(costs: HandlingCosts, tokens: int) -> float:
    """What restoring so many tokens spares, against computing them again; below 0, it is the slower way."""
    return tokens * costs.recompute_us_per_token - (costs.base_us + tokens * costs.restore_us_per_token)


def choose_swap(
    costs: HandlingCosts, tokens: int, wait_tokens: int, room: int, free_room: int, images: Sequence[HeldImage]
) -> SwapChoice:
    """`wait_tokens`: of its tokens, those for which the forward pass waits for the link. `images`: those that may be dropped,
    in any order."""
    wait_us = wait_tokens * costs.save_us_per_token
    gain_us = tokens * costs.recompute_us_per_token - swap_us(costs, tokens) - wait_us
    if tokens == 0 or gain_us <= 0:
        return None
    drop: list[HeldImage] = []
    missing_room = room - free_room
    loss_us = 0.0
    for image in least_worth_first(costs, images) if missing_room > 0 else ():
        if missing_room <= 0:
            break
        loss_us += _worth_us(costs, image)
        if loss_us >= gain_us:
            return None
        drop.append(image)
        missing_room -= image.room
    return None if missing_room > 0 else tuple(drop)


def least_worth_first(costs: HandlingCosts, images: Sequence[HeldImage]) -> list[HeldImage]:
    """By worth for the room that they take; of equal ones the oldest first."""
    return sorted(images, key=lambda image: (_worth_us(costs, image) / image.room, image.id))


def _worth_us(costs: HandlingCosts, image: HeldImage) -> float:
    return max(0.0, restore_gain_us(costs, image.tokens))
