"""How a worker's swap is set up, and how it is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .copy_backend import copy_backend
from .host_arena import HostArena, HostBuffer
from .kv_layers import KvLayers
from .streams import streams_of
from .transfers import SwapTransfers


@dataclass(frozen=True, slots=True)
class SwapSettings:
    #: Host memory for images, in blocks of this worker. It is pinned if the KV lies on a GPU.
    arena_blocks: int
    #: Device memory beside the KV. One call of 8,192 tokens of an 8B model is 1 GiB.
    ring_bytes: int = 2**30
    prefetch_bytes: int = 2**30
    #: auto, torch, triton or vllm.
    backend: str = "auto"
    #: Debug mode: compares what comes back with what left. Slow.
    checksums: bool = False


def swap_transfers(kv_caches: Mapping[str, Any], num_blocks: int, settings: SwapSettings) -> SwapTransfers:
    """`kv_caches` and `num_blocks` as vLLM gives them to a connector.

    Raises UnsupportedKvCacheError, BackendUnavailableError, CannotPinError.
    """
    layers = KvLayers.of(kv_caches, num_blocks)
    backend = copy_backend(settings.backend, layers)
    memory = HostBuffer(settings.arena_blocks * layers.block_bytes, pinned=layers.device.type == "cuda")
    return SwapTransfers(
        backend,
        HostArena(memory.bytes.view(-1, layers.block_bytes)),
        streams_of(layers.device),
        ring_rows=max(1, settings.ring_bytes // layers.block_bytes),
        prefetch_rows=max(1, settings.prefetch_bytes // layers.block_bytes),
        checksums=settings.checksums,
        on_close=memory.close,
    )
