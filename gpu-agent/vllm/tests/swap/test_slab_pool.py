"""An image fits if enough slabs are free, side by side or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchyard_vllm.swap.slab_pool import SLAB_BLOCKS, SlabPool, slabs_for


def test_slabs_of_an_image() -> None:
    assert [slabs_for(blocks) for blocks in (1, SLAB_BLOCKS, SLAB_BLOCKS + 1)] == [1, 1, 2]


def test_adjacent_slabs_are_preferred_and_the_smallest_gap_among_them() -> None:
    pool = SlabPool(10)
    assert pool.take(10) == list(range(10))
    pool.give_back([0, 1, 2, 3, 5, 6, 8])
    assert pool.take(2) == [5, 6]
    assert pool.take(3) == [0, 1, 2]


def test_an_image_that_fits_nowhere_in_one_piece_takes_several() -> None:
    pool = SlabPool(5)
    pool.take(5)
    pool.give_back([0, 2, 4])
    assert pool.take(3) == [0, 2, 4]


def test_a_full_pool_gives_nothing_and_changes_nothing() -> None:
    pool = SlabPool(4)
    assert pool.take(5) is None
    assert pool.free == 4
    assert pool.take(4) is not None
    assert pool.take(1) is None


def test_slabs_are_given_back_once() -> None:
    pool = SlabPool(4)
    slabs = pool.take(2)
    assert slabs is not None
    pool.give_back(slabs)
    with pytest.raises(ValueError, match="free already"):
        pool.give_back(slabs)


@given(st.lists(st.integers(1, 6), max_size=40), st.data())
def test_no_slab_is_in_two_images(sizes: list[int], data: st.DataObject) -> None:
    pool = SlabPool(16)
    held: list[list[int]] = []
    for size in sizes:
        free = pool.free
        taken = pool.take(size)
        assert (taken is None) == (size > free)
        if taken is None:
            pool.give_back(held.pop(data.draw(st.integers(0, len(held) - 1))))
        else:
            assert taken == sorted(taken)
            held.append(taken)
        in_use = [slab for image in held for slab in image]
        assert len(set(in_use)) == len(in_use) == 16 - pool.free
