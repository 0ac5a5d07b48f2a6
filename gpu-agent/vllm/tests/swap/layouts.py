"""KV caches as vLLM 0.32 registers them, filled with random bytes, and what a correct swap makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from hypothesis import strategies as st

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

#: The physical order of the logical axes layer, block, head, token, content.
LAYOUTS = {
    "LBHNC": (0, 1, 2, 3, 4),
    "LBNHC": (0, 1, 3, 2, 4),
    "LHBNC": (0, 2, 1, 3, 4),
    "BLHNC": (1, 0, 2, 3, 4),
    "BLNHC": (1, 0, 3, 2, 4),
    "BHLNC": (1, 2, 0, 3, 4),
}
#: K and V apart, as backends registered them before: a tensor of its own for each layer.
SPLIT = "2BNHD"
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.uint8)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


@dataclass(frozen=True)
class KvShape:
    layout: str = "LBHNC"
    layers: int = 3
    blocks: int = 6
    heads: int = 2
    tokens: int = 4
    #: Of K and V of one head and token.
    content: int = 8
    dtype: Any = torch.bfloat16
    #: Kernel blocks in one of the scheduler's.
    kernel_blocks: int = 1
    #: After each page, where the layout allows it.
    padding_bytes: int = 0


class KvCache:
    """The tensors of one worker, and a copy of its memory to which the expected changes are made."""

    def __init__(self, shape: KvShape, seed: int = 0) -> None:
        self.shape = shape
        size = shape.dtype.itemsize
        if shape.layout == SPLIT:
            layer_bytes = shape.blocks * shape.heads * shape.tokens * shape.content * size
            storages = [_random_bytes(layer_bytes, seed + layer) for layer in range(shape.layers)]
        else:
            storages = [_random_bytes(_packed_bytes(shape), seed)]
        self.storages = storages
        self.tensors = _views(shape, storages)
        self._expected = [storage.clone() for storage in storages]
        self._expected_tensors = _views(shape, self._expected)

    def blocks_of(self, block_ids: Sequence[int]) -> list[Any]:
        """The bytes of these blocks, by layer, read through the logical tensors."""
        ids = torch.tensor(block_ids, dtype=torch.int64, device=DEVICE)
        return [_by_block(tensor, self.shape)[ids] for tensor in self.tensors.values()]

    def set_blocks(self, block_ids: Sequence[int], by_layer: Sequence[Any]) -> None:
        ids = torch.tensor(block_ids, dtype=torch.int64, device=DEVICE)
        for tensor, bytes_ in zip(self.tensors.values(), by_layer, strict=True):
            _by_block(tensor, self.shape)[ids] = bytes_

    def scribble(self, block_ids: Sequence[int], seed: int) -> None:
        """What a forward pass does to blocks that it was given."""
        torch.manual_seed(seed)
        old = self.blocks_of(block_ids)
        new = [torch.randint(0, 127, part.shape, dtype=torch.int32, device=DEVICE).to(part.dtype) for part in old]
        self.set_blocks(block_ids, new)

    def expect_moved(self, from_ids: Sequence[int], to_ids: Sequence[int]) -> None:
        """From the memory as it was when this was made."""
        source = torch.tensor(from_ids, dtype=torch.int64, device=DEVICE)
        target = torch.tensor(to_ids, dtype=torch.int64, device=DEVICE)
        for tensor in self._expected_tensors.values():
            blocks = _by_block(tensor, self.shape)
            blocks[target] = blocks[source].clone()

    def as_expected(self) -> bool:
        """Every byte, those between the blocks included."""
        return all(torch.equal(*pair) for pair in zip(self.storages, self._expected, strict=True))


def _random_bytes(count: int, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator).to(DEVICE)


def _extents(shape: KvShape) -> tuple[int, ...]:
    kernel_tokens = shape.tokens // shape.kernel_blocks
    return (shape.layers, shape.blocks * shape.kernel_blocks, shape.heads, kernel_tokens, shape.content)


def _strides_bytes(shape: KvShape) -> tuple[int, ...]:
    extents, order = _extents(shape), LAYOUTS[shape.layout]
    strides = [0] * 5
    step = shape.dtype.itemsize
    grid = max(order.index(0), order.index(1))
    for place in reversed(range(5)):
        axis = order[place]
        if place == grid:
            step += shape.padding_bytes
        strides[axis] = step
        step *= extents[axis]
    return tuple(strides)


def _packed_bytes(shape: KvShape) -> int:
    extents, strides = _extents(shape), _strides_bytes(shape)
    return max(extent * stride for extent, stride in zip(extents, strides, strict=True))


def _views(shape: KvShape, storages: Sequence[Any]) -> dict[str, Any]:
    size = shape.dtype.itemsize
    if shape.layout == SPLIT:
        dims = (2, shape.blocks, shape.tokens, shape.heads, shape.content // 2)
        return {f"layers.{i}": storage.view(shape.dtype).view(dims) for i, storage in enumerate(storages)}
    strides = [stride // size for stride in _strides_bytes(shape)]
    whole = storages[0].view(shape.dtype).as_strided(_extents(shape), strides)
    return {f"layers.{i}": whole[i] for i in range(shape.layers)}


def _by_block(tensor: Any, shape: KvShape) -> Any:
    """[blocks, ...] as integers of the dtype's size: a NaN equals itself, and every bit counts."""
    integers = tensor.view(_INTEGERS[shape.dtype.itemsize])
    if shape.layout == SPLIT:
        return integers.transpose(0, 1)
    return integers.unflatten(0, (shape.blocks, shape.kernel_blocks))


@st.composite
def kv_shapes(draw: st.DrawFn) -> KvShape:
    layout = draw(st.sampled_from([*LAYOUTS, SPLIT]))
    dtype = draw(st.sampled_from(DTYPES))
    dense = layout in ("LBHNC", "LBNHC")
    kernel_blocks = draw(st.sampled_from([1, 2])) if dense else 1
    # vLLM pads pages of dense layouts only, and never ones that are split. Padding keeps the alignment of elements.
    padded = layout in ("LBHNC", "LBNHC", "BLHNC", "BLNHC") and kernel_blocks == 1
    return KvShape(
        layout=layout,
        layers=draw(st.integers(1, 4)),
        blocks=draw(st.integers(3, 9)),
        heads=draw(st.integers(1, 3)),
        tokens=kernel_blocks * draw(st.integers(1, 4)),
        content=2 * draw(st.sampled_from([1, 3, 4, 8, 20])),
        dtype=dtype,
        kernel_blocks=kernel_blocks,
        padding_bytes=draw(st.sampled_from([0, 4, 16])) if padded else 0,
    )


@st.composite
def moves(draw: st.DrawFn, blocks: int) -> tuple[list[int], list[int]]:
    """Scattered blocks, and others or the same ones for them to come back to."""
    order = draw(st.permutations(range(blocks)))
    back = draw(st.permutations(range(blocks)))
    count = draw(st.integers(1, blocks))
    return list(order[:count]), list(back[:count])


def page_bytes(shape: KvShape) -> int:
    return prod((shape.heads, shape.tokens, shape.content, shape.dtype.itemsize))
