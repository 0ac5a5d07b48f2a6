"""The baseline: vLLM's batch copy (`cuMemcpyBatchAsync`), with a descriptor for each piece of each block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .copy_backend import BackendUnavailableError, CopyBackend
from .kv_layers import KvLayers


def copy_descriptors(layers: KvLayers, block_ids: Sequence[int], image: Any) -> tuple[Any, Any, Any]:
    """(addresses in KV, addresses in the image, sizes): a copy for each piece of each block, row by row. int64, on the host."""
    ids = torch.tensor(block_ids, dtype=torch.int64).unsqueeze(1)
    rows = torch.arange(len(block_ids), dtype=torch.int64).unsqueeze(1)
    in_kv, in_image, sizes = [], [], []
    for group in layers.groups:
        offsets = torch.tensor(group.offsets_bytes, dtype=torch.int64)
        pieces = torch.arange(len(group.offsets_bytes), dtype=torch.int64)
        in_kv.append(group.storage.data_ptr() + offsets + ids * group.block_stride_bytes)
        row = group.image_offset_bytes + pieces * group.piece_bytes
        in_image.append(image.data_ptr() + rows * layers.block_bytes + row)
        sizes.append(torch.full_like(in_kv[-1], group.piece_bytes))
    return tuple(torch.cat(parts, 1).flatten() for parts in (in_kv, in_image, sizes))


class VllmBackend(CopyBackend):
    name = "vllm"

    def __init__(self, layers: KvLayers) -> None:
        super().__init__(layers)
        if layers.device.type != "cuda":
            raise BackendUnavailableError("vLLM's batch copy needs a GPU.")
        try:
            from vllm._custom_ops import swap_blocks_batch
        except ImportError as error:
            raise BackendUnavailableError("vLLM is not installed.") from error
        self._copy = swap_blocks_batch

    def gather(self, block_ids: Sequence[int], image: Any) -> None:
        self._check(image, block_ids)
        in_kv, in_image, sizes = copy_descriptors(self.layers, block_ids, image)
        self._copy(in_kv, in_image, sizes)

    def scatter(self, image: Any, block_ids: Sequence[int]) -> None:
        self._check(image, block_ids)
        in_kv, in_image, sizes = copy_descriptors(self.layers, block_ids, image)
        self._copy(in_image, in_kv, sizes)
