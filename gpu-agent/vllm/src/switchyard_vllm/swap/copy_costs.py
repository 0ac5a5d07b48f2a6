"""What moving KV takes on this machine: measured by a worker when it starts, with its own backend, arena and streams.

Two sizes give what an operation takes by itself, and what a block adds to it. Each is moved out and back as a preempted call
is. Blocks get the bytes back that they held, so nothing changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from .orders import CopyCosts
from .slab_pool import SLAB_BLOCKS
from .transfers import SwapTransfers

#: The smaller size. The larger one has so many bytes: some 3 ms over PCIe 4.0, each way.
SMALL_BLOCKS = SLAB_BLOCKS
LARGE_BYTES = 64 * 2**20
ROUNDS_MAX = 5
#: No round begins later. One takes longer only on a link below 0.7 GB/s.
LIMIT_S = 0.3
#: Of the first use of each size, which compiles kernels and touches memory for the first time, nothing is kept.
WARM_ROUNDS = 1
IMAGE = "copy-costs"
#: vLLM's null block, which pads tables.
FIRST_BLOCK = 1


def measure_copies(
    transfers: SwapTransfers, block_tokens: int, clock_s: Callable[[], float] = time.perf_counter
) -> CopyCosts | None:
    """None: there is no room to measure in. Call before any call is served."""
    layers = transfers.layers
    room = min(layers.num_blocks - FIRST_BLOCK, transfers.free_slabs * SLAB_BLOCKS)
    large = min(room, max(2 * SMALL_BLOCKS, LARGE_BYTES // layers.block_bytes))
    if large < 2 * SMALL_BLOCKS:
        return None
    sizes = (SMALL_BLOCKS, large)
    for _ in range(WARM_ROUNDS):
        for blocks in sizes:
            _move(transfers, blocks, clock_s)
    taken: dict[int, list[tuple[float, float]]] = {blocks: [] for blocks in sizes}
    begun_s = clock_s()
    for _ in range(ROUNDS_MAX):
        for blocks in sizes:
            taken[blocks].append(_move(transfers, blocks, clock_s))
        if clock_s() - begun_s >= LIMIT_S:
            break
    save_base_us, save_us = _line(sizes, [median(out for out, _ in taken[blocks]) for blocks in sizes])
    restore_base_us, restore_us = _line(sizes, [median(back for _, back in taken[blocks]) for blocks in sizes])
    return CopyCosts((save_base_us + restore_base_us) / 2, save_us / block_tokens, restore_us / block_tokens)


def _move(transfers: SwapTransfers, blocks: int, clock_s: Callable[[], float]) -> tuple[float, float]:
    """Microseconds until the blocks are on the host, and until they are back."""
    ids = range(FIRST_BLOCK, FIRST_BLOCK + blocks)
    begun_s = clock_s()
    kept = transfers.swap_out(IMAGE, ids)
    transfers.finish()
    out_s = clock_s()
    assert kept
    transfers.prefetch(IMAGE)
    transfers.swap_in(IMAGE, ids)
    transfers.finish()
    back_s = clock_s()
    transfers.drop(IMAGE)
    return (out_s - begun_s) * 1e6, (back_s - out_s) * 1e6


def _line(sizes: tuple[int, int], times_us: list[float]) -> tuple[float, float]:
    """Time at no block, and of each block."""
    (small, large), (small_us, large_us) = sizes, times_us
    block_us = max(0.0, (large_us - small_us) / (large - small))
    return max(0.0, small_us - small * block_us), block_us
