"""Copies blocks of KV into a contiguous image and back, on the device, on the current stream.

`torch` works on every device and is the reference. `triton` copies all layers in one launch. `vllm` is vLLM's own batch copy,
one descriptor for each piece of each block: the baseline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from .kv_layers import KvLayers


class BackendUnavailableError(RuntimeError):
    """This backend cannot run here. The message says why."""


class CopyBackend(ABC):
    name: ClassVar[str]

    def __init__(self, layers: KvLayers) -> None:
        """Raises BackendUnavailableError."""
        self.layers = layers

    @abstractmethod
    def gather(self, block_ids: Sequence[int], image: Any) -> None:
        """Row i of `image` becomes block `block_ids[i]`. `image`: [len(block_ids), block_bytes] bytes on the layers' device.

        Enqueued on the current stream; the host does not wait.
        """

    @abstractmethod
    def scatter(self, image: Any, block_ids: Sequence[int]) -> None:
        """Block `block_ids[i]` becomes row i of `image`. The ids differ from each other. Other blocks stay as they are."""

    def _check(self, image: Any, block_ids: Sequence[int]) -> None:
        expected = (len(block_ids), self.layers.block_bytes)
        if tuple(image.shape) != expected or image.element_size() != 1 or not image.is_contiguous():
            raise ValueError(
                f"An image of {len(block_ids)} blocks is contiguous bytes of shape {expected}, not {image.shape}."
            )
        if len(block_ids) > 0 and not 0 <= min(block_ids) <= max(block_ids) < self.layers.num_blocks:
            raise ValueError(f"Block ids are from 0 to {self.layers.num_blocks - 1}, not {list(block_ids)}.")


def copy_backend(name: str, layers: KvLayers) -> CopyBackend:
    """`name`: torch, triton, vllm, or auto (triton on a GPU, else torch). Raises BackendUnavailableError."""
    from .torch_backend import TorchBackend

    if name == "auto":
        name = "triton" if layers.device.type == "cuda" else "torch"
    if name == "torch":
        return TorchBackend(layers)
    if name == "triton":
        from .triton_backend import TritonBackend

        return TritonBackend(layers)
    if name == "vllm":
        from .vllm_backend import VllmBackend

        return VllmBackend(layers)
    raise BackendUnavailableError(f"There is no copy backend {name!r}: choose auto, torch, triton or vllm.")


def ids_on(device: Any, block_ids: Sequence[int]) -> Any:
    """The ids as a tensor on the device. The host does not wait for the copy."""
    import torch

    if device.type != "cuda":
        return torch.tensor(block_ids, dtype=torch.int64, device=device)
    return torch.tensor(block_ids, dtype=torch.int64, pin_memory=True).to(device, non_blocking=True)
