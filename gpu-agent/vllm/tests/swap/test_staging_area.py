"""Ranges of the area never overlap, and come with the fences of those that used their rows before."""

import random

import pytest
import torch

from switchyard_vllm.swap.staging import StagingRoom
from switchyard_vllm.swap.staging_area import StagingArea
from switchyard_vllm.swap.staging_ring import Segment

from .lazy_streams import LazyFence


def area_of(rows: int) -> StagingArea:
    return StagingArea(torch.zeros((rows, 4), dtype=torch.uint8))


def rows_of(segment: Segment) -> set[int]:
    return set(range(segment.start, segment.start + segment.rows))


@pytest.mark.parametrize("seed", range(20))
def test_no_row_is_in_two_ranges_and_no_user_before_is_forgotten(seed: int) -> None:
    dice = random.Random(seed)
    rows = dice.randint(1, 30)
    area = area_of(rows)
    held: list[Segment] = []
    last_fence: dict[int, LazyFence] = {}
    for _ in range(300):
        if held and dice.random() < 0.5:
            segment = held.pop(dice.randrange(len(held)))
            fence = LazyFence()
            last_fence.update(dict.fromkeys(rows_of(segment), fence))
            area.give_back(segment, fence)
        else:
            wanted = dice.randint(1, 12)
            free = rows - sum(segment.rows for segment in held)
            segments = area.take(wanted)
            assert (segments is None) == (wanted > free), "room is room, adjacent or not"
            for segment in segments or ():
                own = rows_of(segment)
                assert max(own) < rows
                assert not any(own & rows_of(one) for one in held)
                before = {last_fence[row] for row in own if row in last_fence}
                assert {fence for fence in before if not fence.done()} <= set(segment.after)
                held.append(segment)
        if last_fence and dice.random() < 0.3:
            dice.choice(list(last_fence.values())).passed = True
        assert area.free_rows == rows - sum(segment.rows for segment in held)


def taken(area: StagingArea, rows: int) -> Segment:
    """In one range."""
    segments = area.take(rows)
    assert segments is not None
    (segment,) = segments
    return segment


def test_a_range_waits_for_those_who_used_its_rows_and_for_no_others() -> None:
    area = area_of(8)
    fences = [LazyFence(), LazyFence()]
    segments = [taken(area, 4), taken(area, 4)]
    for segment, fence in zip(segments, fences, strict=True):
        area.give_back(segment, fence)
    first = taken(area, 4)
    assert first.after == [fences[first.start // 4]]
    fences[1 - first.start // 4].passed = True
    assert taken(area, 4).after == []


def test_a_range_is_given_back_once() -> None:
    area = area_of(4)
    segment = taken(area, 4)
    area.give_back(segment, None)
    with pytest.raises(ValueError, match="already"):
        area.give_back(segment, None)


def test_as_few_images_leave_as_are_needed_and_none_if_all_would_not_be_enough() -> None:
    room = StagingRoom(10)
    for image, blocks in ((1, 4), (2, 3), (3, 3)):
        assert not room.lacks(blocks)
        assert room.enter(image, blocks) == []
    assert room.lacks(1)
    assert room.enter(4, 11, [1, 2, 3]) is None
    assert room.enter(4, 5, [2]) is None
    assert room.held_blocks == 10
    assert room.enter(4, 5, [2, 1, 3]) == [2, 1]
    assert room.held_blocks == 8
    room.leave(4)
    room.leave(4)
    assert room.held_blocks == 3
    room.clear()
    assert not room.lacks(10)
