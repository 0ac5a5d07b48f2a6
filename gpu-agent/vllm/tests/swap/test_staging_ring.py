"""Ranges of the ring never overlap. Taking one gives the fences of those before it."""

import random

import pytest
import torch

from switchyard_vllm.swap.staging_ring import Segment, StagingRing
from switchyard_vllm.swap.streams import Fence

from .lazy_streams import LazyFence


def ring_of(rows: int) -> StagingRing:
    return StagingRing(torch.zeros((rows, 4), dtype=torch.uint8))


def taken(ring: StagingRing, rows: int) -> Segment:
    segment = ring.take(rows)
    assert segment is not None
    return segment


def test_ranges_follow_each_other_and_wrap_around() -> None:
    ring = ring_of(10)
    first = taken(ring, 6)
    second = taken(ring, 6)
    assert [(first.start, first.rows), (second.start, second.rows)] == [(0, 6), (6, 4)]
    assert ring.take(1) is None
    ring.give_back(first, None)
    third = taken(ring, 4)
    assert (third.start, third.rows) == (0, 4)
    assert ring.free_rows == 2


def test_a_range_comes_with_the_fences_of_those_it_replaces() -> None:
    ring = ring_of(8)
    fences: list[Fence] = [LazyFence(), LazyFence()]
    for fence in fences:
        ring.give_back(taken(ring, 4), fence)
    assert ring.ready_rows == 0
    assert taken(ring, 3).after == fences[:1]
    assert taken(ring, 3).after == fences
    assert taken(ring, 2).after == fences[1:]


def test_a_fence_that_is_done_is_not_waited_for() -> None:
    ring = ring_of(4)
    fence = LazyFence()
    ring.give_back(taken(ring, 4), fence)
    fence.passed = True
    assert ring.ready_rows == 4
    assert taken(ring, 4).after == []


def test_a_range_that_is_not_given_back_is_in_the_way() -> None:
    ring = ring_of(6)
    held = taken(ring, 2)
    ring.give_back(taken(ring, 4), None)
    assert ring.free_rows == 0
    assert ring.take(1) is None
    ring.give_back(held, None)
    assert ring.free_rows == 6


def test_parts_of_a_range_are_given_back_one_by_one() -> None:
    ring = ring_of(6)
    fences = [LazyFence(), LazyFence(), LazyFence()]
    second_part: Fence = fences[1]
    parts = ring.split(taken(ring, 6), 2)
    assert [(part.start, part.rows) for part in parts] == [(0, 2), (2, 2), (4, 2)]
    for part, fence in zip(parts, fences, strict=True):
        ring.give_back(part, fence)
    fences[0].passed = True
    assert ring.ready_rows == 2
    assert taken(ring, 3).after == [second_part]


def test_misuse_is_refused() -> None:
    ring = ring_of(6)
    first = taken(ring, 2)
    taken(ring, 2)
    with pytest.raises(ValueError, match="taken last"):
        ring.split(first, 1)
    ring.give_back(first, None)
    with pytest.raises(ValueError, match="already"):
        ring.give_back(first, None)
    with pytest.raises(ValueError, match="one block"):
        ring_of(0)


@pytest.mark.parametrize("seed", range(20))
def test_no_row_is_in_two_ranges_and_no_user_before_is_forgotten(seed: int) -> None:
    dice = random.Random(seed)
    ring = ring_of(dice.randint(1, 30))
    held: list[Segment] = []
    last_fence: dict[int, LazyFence] = {}
    for _ in range(300):
        if held and dice.random() < 0.5:
            segment = held.pop(dice.randrange(len(held)))
            fence = LazyFence()
            last_fence.update(dict.fromkeys(range(segment.start, segment.start + segment.rows), fence))
            ring.give_back(segment, fence)
        elif (segment := ring.take(dice.randint(1, 12)) or Segment(0, 0)).rows > 0:
            rows = set(range(segment.start, segment.start + segment.rows))
            assert max(rows) < ring.rows
            assert not any(rows & set(range(one.start, one.start + one.rows)) for one in held)
            before = {last_fence[row] for row in rows if row in last_fence}
            assert {fence for fence in before if not fence.passed} <= set(segment.after)
            held.append(segment)
        if last_fence and dice.random() < 0.3:
            dice.choice(list(last_fence.values())).passed = True
        assert ring.ready_rows <= ring.free_rows
    for segment in held:
        ring.give_back(segment, None)
    assert ring.free_rows == ring.rows
