"""Copies are measured with what the swap itself copies with, in bounded time, and leave everything as it was."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from switchyard_vllm.swap.copy_costs import LIMIT_S, measure_copies
from switchyard_vllm.swap.host_arena import HostArena
from switchyard_vllm.swap.kv_layers import KvLayers
from switchyard_vllm.swap.orders import CopyCosts, Report
from switchyard_vllm.swap.streams import HostStreams
from switchyard_vllm.swap.swap_costs import LINK_BYTES_PER_US, SwapCosts
from switchyard_vllm.swap.swap_options import SwapOptions
from switchyard_vllm.swap.torch_backend import TorchBackend
from switchyard_vllm.swap.transfers import SwapTransfers

from .layouts import KvCache, KvShape

BLOCKS = 60
BLOCK_TOKENS = 4
#: All rounds pass without a turn of a ring, which would cut an image in two.
RING_ROWS = 1000


class Paced(TorchBackend):
    """Copies, and takes so long for it on its own clock."""

    def __init__(self, layers: KvLayers, *, out_us: tuple[float, float], back_us: tuple[float, float]) -> None:
        """Of each, for an operation and for a block."""
        super().__init__(layers)
        self.out_us, self.back_us = out_us, back_us
        self.now_us = 0.0
        self.gathered: list[int] = []

    def gather(self, block_ids: Sequence[int], image: Any) -> None:
        super().gather(block_ids, image)
        self.gathered.append(len(block_ids))
        self.now_us += self.out_us[0] + self.out_us[1] * len(block_ids)

    def scatter(self, image: Any, block_ids: Sequence[int]) -> None:
        super().scatter(image, block_ids)
        self.now_us += self.back_us[0] + self.back_us[1] * len(block_ids)

    def clock_s(self) -> float:
        return self.now_us / 1e6


def setting(arena_blocks: int = 96, **paces: tuple[float, float]) -> tuple[KvCache, Paced, SwapTransfers]:
    cache = KvCache(KvShape(layout="LBHNC", layers=2, blocks=BLOCKS, heads=1, tokens=BLOCK_TOKENS, content=8), 1)
    layers = KvLayers.of(cache.tensors, BLOCKS)
    backend = Paced(layers, **({"out_us": (100, 3), "back_us": (200, 5)} | paces))
    arena = HostArena(layers.empty_image(arena_blocks, device="cpu"))
    return cache, backend, SwapTransfers(backend, arena, HostStreams(), ring_rows=RING_ROWS, prefetch_rows=RING_ROWS)


def test_two_sizes_give_what_an_operation_and_a_token_take() -> None:
    _, backend, transfers = setting()
    costs = measure_copies(transfers, BLOCK_TOKENS, backend.clock_s)
    assert costs is not None
    assert costs.base_us == pytest.approx((100 + 200) / 2)
    assert costs.save_us_per_token == pytest.approx(3 / BLOCK_TOKENS)
    assert costs.restore_us_per_token == pytest.approx(5 / BLOCK_TOKENS)
    assert len(set(backend.gathered)) == 2


def test_blocks_and_arena_are_as_they_were() -> None:
    cache, backend, transfers = setting()
    before = {name: tensor.view(torch.uint8).clone() for name, tensor in cache.tensors.items()}
    free_slabs = transfers.free_slabs
    assert measure_copies(transfers, BLOCK_TOKENS, backend.clock_s) is not None
    assert all(torch.equal(cache.tensors[name].view(torch.uint8), tensor) for name, tensor in before.items())
    assert (transfers.images, transfers.free_slabs) == (0, free_slabs)
    completed = transfers.completed()
    assert (completed.out, completed.staged, completed.loaded) == ((), (), ())


def test_a_slow_link_is_measured_once() -> None:
    slow = (LIMIT_S * 1e6, 1.0)
    _, backend, transfers = setting(out_us=slow, back_us=slow)
    assert measure_copies(transfers, BLOCK_TOKENS, backend.clock_s) is not None
    # Both sizes, first to warm up and then to measure.
    assert len(backend.gathered) == 4


def test_without_room_for_two_sizes_nothing_is_measured() -> None:
    _, backend, transfers = setting(arena_blocks=8)
    assert measure_copies(transfers, BLOCK_TOKENS, backend.clock_s) is None
    assert backend.gathered == []


def test_of_several_ranks_the_slowest_counts() -> None:
    report = Report()
    report.add(Report(copy_costs=CopyCosts(10, 2, 1)))
    report.add(Report())
    report.add(Report(copy_costs=CopyCosts(5, 1, 3)))
    assert report
    assert report.copy_costs == CopyCosts(10, 2, 3)


def test_what_the_operator_set_stands_and_the_rest_is_measured() -> None:
    costs = SwapCosts(SwapOptions(base_us=7, recompute_us_per_token=40), bytes_per_token=2 * LINK_BYTES_PER_US)
    assert costs.as_dict() == {
        "base_us": 7,
        "save_us_per_token": 2,
        "restore_us_per_token": 2,
        "recompute_us_per_token": 40,
        "measured": False,
    }
    costs.copies_take(CopyCosts(900, 1.5, 2.5))
    costs.prefill_takes(300)
    assert costs.as_dict() == {
        "base_us": 7,
        "save_us_per_token": 1.5,
        "restore_us_per_token": 2.5,
        "recompute_us_per_token": 40,
        "measured": True,
    }
    measured = SwapCosts(SwapOptions(), bytes_per_token=1)
    measured.copies_take(CopyCosts(900, 1.5, 2.5))
    measured.prefill_takes(300)
    assert (measured.current.base_us, measured.current.recompute_us_per_token) == (900, 300)
