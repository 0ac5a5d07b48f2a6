"""A Triton kernel of the design that vLLM uses for small pages.

Few programs read pairs of addresses and copy between the KV and pinned host memory, eight bytes at a time. It is written here,
since the benchmark runs without vLLM. vLLM's own is `vllm/v1/kv_offload/cpu/swap_blocks_triton.py`. vLLM uses it from host to
device only, and for pages below 28 KiB only; from device to host it uses the batch copy.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

#: As in vLLM: few, so that the forward pass keeps the others.
PROGRAMS = 12
_CHUNK_BYTES_MAX = 8192


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _copy_pairs(from_, to, sizes, count, CHUNK_WORDS: tl.constexpr) -> None:  # type: ignore[no-untyped-def, unused-ignore]  # noqa: N803
    pair = tl.program_id(0)
    while pair < count:
        source = tl.load(from_ + pair).to(tl.pointer_type(tl.int64))
        target = tl.load(to + pair).to(tl.pointer_type(tl.int64))
        words = tl.load(sizes + pair) // 8
        for start in range(0, words, CHUNK_WORDS):
            offsets = start + tl.arange(0, CHUNK_WORDS)
            inside = offsets < words
            tl.store(target + offsets, tl.load(source + offsets, mask=inside), mask=inside)
        pair += tl.num_programs(0)


def copy_pairs(to: Any, from_: Any, sizes: Any, device: Any) -> None:
    """On the current stream. Addresses and sizes are on the host."""
    chunk_bytes = min(triton.next_power_of_2(int(sizes.max())), _CHUNK_BYTES_MAX)
    on_device = [part.pin_memory().to(device, non_blocking=True) for part in (from_, to, sizes)]
    _copy_pairs[(min(PROGRAMS, to.numel()),)](*on_device, to.numel(), CHUNK_WORDS=chunk_bytes // 8)
