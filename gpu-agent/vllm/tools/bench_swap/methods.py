"""The ways to move a call's KV that are compared.

All implement one interface, and nothing in it makes the host wait for the device. After `out`, what is enqueued next on the
compute stream may overwrite the blocks. A call comes back in three steps: `prepare` needs no blocks yet, `begin` needs blocks,
and after `finish` what is enqueued next on the compute stream sees them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from switchyard_vllm.swap.copy_backend import copy_backend
from switchyard_vllm.swap.host_arena import HostArena
from switchyard_vllm.swap.kv_layers import KvLayers
from switchyard_vllm.swap.slab_pool import SLAB_BLOCKS, slabs_for
from switchyard_vllm.swap.streams import Fence, Streams
from switchyard_vllm.swap.transfers import SwapTransfers
from switchyard_vllm.swap.vllm_backend import copy_descriptors

#: Takes (to, from, sizes) on the host and a stream.
Copy = Callable[[Any, Any, Any, Any], None]


class Method(ABC):
    name: str
    #: Whether it passes through device memory of its own.
    staged = False

    def __init__(self, layers: KvLayers, streams: Streams) -> None:
        self.layers = layers
        self.streams = streams

    @abstractmethod
    def out(self, slot: int, block_ids: Sequence[int]) -> Fence:
        """The fence is done once the KV is on the host."""

    def prepare(self, slot: int) -> bool:
        """False: there is no room yet."""
        return True

    def begin(self, slot: int, block_ids: Sequence[int]) -> None:  # noqa: B027
        """What goes on beside the forward passes of other calls."""

    @abstractmethod
    def finish(self, slot: int, block_ids: Sequence[int]) -> None: ...

    def forget(self, slot: int) -> None:  # noqa: B027
        """The host's copy is not needed any more."""


class Staged(Method):
    """Ours: a gather into device memory, then one copy."""

    staged = True

    def __init__(self, name: str, backend: str, layers: KvLayers, streams: Streams, host: Any, ring_bytes: int) -> None:
        super().__init__(layers, streams)
        self.name = name
        rows = host.numel() // layers.block_bytes
        arena = HostArena(host[: rows * layers.block_bytes].view(rows, -1))
        ring_rows = max(1, ring_bytes // layers.block_bytes)
        self._transfers = SwapTransfers(
            copy_backend(backend, layers), arena, streams, ring_rows=ring_rows, prefetch_rows=ring_rows
        )

    def out(self, slot: int, block_ids: Sequence[int]) -> Fence:
        assert self._transfers.swap_out(f"{slot}", block_ids)
        return self.streams.out.record()

    def prepare(self, slot: int) -> bool:
        return self._transfers.prefetch(f"{slot}")

    def finish(self, slot: int, block_ids: Sequence[int]) -> None:
        self._transfers.swap_in(f"{slot}", block_ids)

    def forget(self, slot: int) -> None:
        self._transfers.drop(f"{slot}")


class Direct(Method):
    """A descriptor for each piece of each block, between KV and host. Blocks are in use until the last copy is complete."""

    def __init__(self, name: str, copy: Copy, layers: KvLayers, streams: Streams, host: Any) -> None:
        super().__init__(layers, streams)
        self.name = name
        self._copy = copy
        self._host = host
        self._arrived: dict[int, Fence] = {}

    def out(self, slot: int, block_ids: Sequence[int]) -> Fence:
        stream = self.streams.out
        stream.wait(self.streams.compute.record())
        self._run(stream, slot, block_ids, to_host=True)
        done = stream.record()
        self.streams.compute.wait(done)
        return done

    def begin(self, slot: int, block_ids: Sequence[int]) -> None:
        stream = self.streams.into
        stream.wait(self.streams.compute.record())
        self._run(stream, slot, block_ids, to_host=False)
        self._arrived[slot] = stream.record()

    def finish(self, slot: int, block_ids: Sequence[int]) -> None:
        self.streams.compute.wait(self._arrived.pop(slot))

    def _run(self, stream: Any, slot: int, block_ids: Sequence[int], *, to_host: bool) -> None:
        in_kv, in_image, sizes = copy_descriptors(self.layers, block_ids, self._image(slot, len(block_ids)))
        to, from_ = (in_image, in_kv) if to_host else (in_kv, in_image)
        stream.run(lambda: self._copy(to, from_, sizes, _current(self.layers.device)))

    def _image(self, slot: int, blocks: int) -> Any:
        # Images of one measurement have equal sizes.
        size = slabs_for(blocks) * SLAB_BLOCKS * self.layers.block_bytes
        return self._host[slot * size : slot * size + blocks * self.layers.block_bytes].view(blocks, -1)


class WriteThrough(Direct):
    """Blocks are copied when they fill, whether or not their call is ever preempted. Only the last one is left to copy then."""

    def fills(self, slot: int, block_ids: Sequence[int], chunk_blocks: int) -> list[Callable[[], Fence]]:
        """What is copied before the call is preempted, as a prefill fills blocks: a copy for each of its steps."""
        full = block_ids[:-1]
        image = self._image(slot, len(block_ids))
        return [
            partial(
                self._copy_full,
                image[start : start + chunk_blocks][: len(full) - start],
                full[start : start + chunk_blocks],
            )
            for start in range(0, len(full), chunk_blocks)
        ]

    def out(self, slot: int, block_ids: Sequence[int]) -> Fence:
        done = self._copy_full(self._image(slot, len(block_ids))[-1:], block_ids[-1:])
        self.streams.compute.wait(done)
        return done

    def _copy_full(self, image: Any, block_ids: Sequence[int]) -> Fence:
        stream = self.streams.out
        stream.wait(self.streams.compute.record())
        in_kv, in_image, sizes = copy_descriptors(self.layers, block_ids, image)
        stream.run(lambda: self._copy(in_image, in_kv, sizes, _current(self.layers.device)))
        return stream.record()


def host_copy(to: Any, from_: Any, sizes: Any, _stream: Any) -> None:
    """The loop of copies on a machine without CUDA: addresses are of host memory."""
    import ctypes

    for target, source, size in zip(to.tolist(), from_.tolist(), sizes.tolist(), strict=True):
        ctypes.memmove(target, source, size)


def _current(device: Any) -> Any:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def methods_here(
    layers: KvLayers, streams: Streams, host: Any, ring_bytes: int, only: Sequence[str]
) -> tuple[list[Method], dict[str, str]]:
    """Those that run here, and why others do not."""
    made: list[Method] = []
    missing: dict[str, str] = {}
    for name, make in _makers(layers, streams, host, ring_bytes).items():
        if only and name not in only:
            continue
        try:
            made.append(make())
        except (ImportError, RuntimeError) as error:
            missing[name] = str(error)
    return made, missing


def _makers(layers: KvLayers, streams: Streams, host: Any, ring_bytes: int) -> dict[str, Callable[[], Method]]:
    from .direct_copy import BatchCopy, LoopCopy

    common = (layers, streams, host)
    staged = (*common, ring_bytes)

    def batch(kind: type[Direct], name: str) -> Method:
        return kind(name, BatchCopy(), *common)

    def pairs() -> Method:
        if layers.device.type != "cuda":
            raise RuntimeError("It needs a GPU.")
        from .pairs_kernel import copy_pairs

        return Direct(
            "triton-to-host", lambda to, from_, sizes, _: copy_pairs(to, from_, sizes, layers.device), *common
        )

    def loop() -> Method:
        copy = LoopCopy() if layers.device.type == "cuda" else host_copy
        return Direct("copy-per-block-and-layer", copy, *common)

    def vllm_batch() -> Method:
        from vllm._custom_ops import swap_blocks_batch

        if layers.device.type != "cuda":
            raise RuntimeError("It needs a GPU.")
        return Direct("vllm-batch-copy", lambda to, from_, sizes, _: swap_blocks_batch(from_, to, sizes), *common)

    return {
        "staged-triton": lambda: Staged("staged-triton", "triton", *staged),
        "staged-torch": lambda: Staged("staged-torch", "torch", *staged),
        "copy-per-block-and-layer": loop,
        "batch-copy": lambda: batch(Direct, "batch-copy"),
        "vllm-batch-copy": vllm_batch,
        "triton-to-host": pairs,
        "write-through": lambda: batch(WriteThrough, "write-through"),
    }


METHODS = (
    "staged-triton",
    "staged-torch",
    "copy-per-block-and-layer",
    "batch-copy",
    "vllm-batch-copy",
    "triton-to-host",
    "write-through",
)
