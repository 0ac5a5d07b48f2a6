"""Where one block of KV lies in a worker's registered tensors, for every KV layout of vLLM 0.32.

vLLM hands a connector one logical tensor [blocks, heads, tokens, content] per layer. Its strides depend on the layout (LBNHC,
LBHNC, LHBNC, BLNHC, BLHNC, BHLNC), and a block may be split into several kernel blocks. Backends of older versions register
[2, blocks, tokens, heads, head size], K before V. Here each is reduced to *pieces*: runs of bytes that lie at
`offset + block * stride`. Runs that are adjacent in every block become one piece, so a block of LBHNC has one piece a layer,
and a block of BLHNC has one in all. Bytes are moved, never numbers, so the dtype matters only for its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import Any

import torch

#: Runs in one block, over all layers.
PIECES_MAX = 8192
DTYPES = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.uint8,
    torch.int8,
)
_WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}


class UnsupportedKvCacheError(ValueError):
    """These KV caches cannot be swapped. The message says which layer and why."""


@dataclass(frozen=True, slots=True)
class PieceGroup:
    """Pieces of equal length and stride in one storage: one launch copies them all."""

    #: The storage as bytes.
    storage: Any
    #: Of each piece of block 0, from the start of the storage, ascending.
    offsets_bytes: tuple[int, ...]
    piece_bytes: int
    block_stride_bytes: int
    #: Of the first piece, in a row of an image. The others follow it.
    image_offset_bytes: int
    #: Of a row of an image.
    row_bytes: int
    num_blocks: int

    @property
    def word_bytes(self) -> int:
        """The widest word (at most 8) that all addresses and lengths are multiples of."""
        return next(size for size in _WORDS if self._aligned(size))

    @property
    def wide(self) -> bool:
        """Whether accesses of 16 bytes are aligned."""
        return self._aligned(16)

    def words(self) -> Any:
        """The storage as words."""
        size = self.word_bytes
        return self.storage[: self.storage.numel() // size * size].view(_WORDS[size])

    def pieces(self) -> Any | None:
        """A view [blocks, pieces, words]. None: the pieces do not lie at equal distances."""
        offsets = self.offsets_bytes
        step = offsets[1] - offsets[0] if len(offsets) > 1 else self.piece_bytes
        if any(after - before != step for before, after in pairwise(offsets)):
            return None
        return self._view(offsets[0], len(offsets), step)

    def piece(self, index: int) -> Any:
        """A view [blocks, 1, words] of one piece."""
        return self._view(self.offsets_bytes[index], 1, self.piece_bytes)

    def image_words(self, image: Any) -> Any:
        """The part of an image's rows that is this group's: a view [rows, pieces, words]."""
        size = self.word_bytes
        length = len(self.offsets_bytes) * self.piece_bytes
        part = image[:, self.image_offset_bytes : self.image_offset_bytes + length]
        return part.view(_WORDS[size]).unflatten(1, (len(self.offsets_bytes), -1))

    def _view(self, offset_bytes: int, pieces: int, step_bytes: int) -> Any:
        size = self.word_bytes
        return self.words().as_strided(
            (self.num_blocks, pieces, self.piece_bytes // size),
            (self.block_stride_bytes // size, step_bytes // size, 1),
            offset_bytes // size,
        )

    def _aligned(self, size: int) -> bool:
        numbers = (
            *self.offsets_bytes,
            self.piece_bytes,
            self.block_stride_bytes,
            self.image_offset_bytes,
            self.row_bytes,
        )
        return all(number % size == 0 for number in numbers) and self.storage.data_ptr() % size == 0


@dataclass(frozen=True, slots=True)
class KvLayers:
    """The KV tensors of one worker."""

    groups: tuple[PieceGroup, ...]
    num_blocks: int
    #: Of one block over all layers, without padding: a row of an image.
    block_bytes: int
    device: Any
    #: The tensors themselves: they keep the storages alive.
    tensors: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, kv_caches: Mapping[str, Any], num_blocks: int) -> KvLayers:
        """`kv_caches`: a tensor by layer name, as vLLM registers them. `num_blocks`: of the scheduler, not of the kernels.

        Raises UnsupportedKvCacheError: state-space layers, overlaid cache groups, several devices, unknown shapes or dtypes.
        """
        if not kv_caches:
            raise UnsupportedKvCacheError("No layer has a KV cache.")
        pieces: list[_Piece] = []
        for name, tensor in _distinct(kv_caches).items():
            pieces += _pieces_of(name, tensor, num_blocks)
            if len(pieces) > PIECES_MAX:
                raise UnsupportedKvCacheError(f"A block has over {PIECES_MAX} separate runs of bytes by layer {name}.")
        devices = {piece.storage.device for piece in pieces}
        if len(devices) > 1:
            raise UnsupportedKvCacheError(f"The layers lie on several devices: {sorted(map(str, devices))}.")
        _refuse_overlap(pieces, num_blocks)
        block_bytes = sum(piece.length_bytes for piece in pieces)
        groups = _grouped(_merged(pieces), num_blocks, block_bytes)
        return cls(groups, num_blocks, block_bytes, devices.pop(), dict(kv_caches))

    def empty_image(self, rows: int, *, device: Any = None) -> Any:
        """[rows, block_bytes] of bytes, on the layers' device unless told."""
        return torch.empty((rows, self.block_bytes), dtype=torch.uint8, device=device or self.device)


@dataclass(frozen=True, slots=True)
class _Piece:
    layer: str
    storage: Any
    offset_bytes: int
    length_bytes: int
    stride_bytes: int

    @property
    def lattice(self) -> tuple[int, int]:
        return (self.storage.data_ptr(), self.stride_bytes)


def _distinct(kv_caches: Mapping[str, Any]) -> dict[str, Any]:
    """Layers that share another's KV are registered with the same tensor."""
    seen: dict[object, str] = {}
    distinct: dict[str, Any] = {}
    for name, tensor in kv_caches.items():
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedKvCacheError(
                f"Layer {name} has no single KV tensor but a {type(tensor).__name__} (a state-space layer?)."
            )
        if tensor.dtype not in DTYPES:
            raise UnsupportedKvCacheError(f"The KV of layer {name} has dtype {tensor.dtype}.")
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key not in seen:
            seen[key] = name
            distinct[name] = tensor
    return distinct


def _pieces_of(name: str, tensor: Any, num_blocks: int) -> list[_Piece]:
    size = tensor.element_size()
    block_dim = _block_dim(name, tensor, num_blocks)
    kernel_blocks = tensor.shape[block_dim] // num_blocks
    kernel_stride = tensor.stride(block_dim) * size
    dims = [(kernel_blocks, kernel_stride)]
    dims += [
        (length, stride * size)
        for dim, (length, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
        if dim != block_dim
    ]
    dims = sorted((dim for dim in dims if dim[0] > 1), key=lambda dim: dim[1])
    run = size
    while dims and dims[0][1] == run:
        run *= dims.pop(0)[0]
    if dims and dims[0][1] < run:
        raise UnsupportedKvCacheError(f"The KV of layer {name} overlaps itself: {_described(tensor)}.")
    if prod(length for length, _ in dims) > PIECES_MAX:
        raise UnsupportedKvCacheError(
            f"A block of layer {name} has over {PIECES_MAX} runs of bytes: {_described(tensor)}."
        )
    storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    start = tensor.storage_offset() * size
    steps = [[index * stride for index in range(length)] for length, stride in dims]
    return [
        _Piece(name, storage, start + sum(offsets), run, kernel_blocks * kernel_stride) for offsets in product(*steps)
    ]


def _block_dim(name: str, tensor: Any, num_blocks: int) -> int:
    split = tensor.dim() == 5 and tensor.shape[0] == 2 and tensor.shape[1] % num_blocks == 0
    if split and num_blocks > 2:
        return 1
    if tensor.dim() in (3, 4, 5) and tensor.shape[0] > 0 and tensor.shape[0] % num_blocks == 0:
        return 0
    raise UnsupportedKvCacheError(
        f"The KV of layer {name} is neither [{num_blocks} blocks, ...] nor [2, {num_blocks} blocks, ...]: {_described(tensor)}."
    )


def _described(tensor: Any) -> str:
    return f"shape {list(tensor.shape)}, strides {list(tensor.stride())}"


def _refuse_overlap(pieces: Sequence[_Piece], num_blocks: int) -> None:
    """Cache groups that overlay each other use the same bytes for different blocks: an id alone does not say what is there."""
    by_storage: dict[int, list[_Piece]] = {}
    for piece in pieces:
        by_storage.setdefault(piece.storage.data_ptr(), []).append(piece)
    for together in by_storage.values():
        offsets = torch.tensor([piece.offset_bytes for piece in together])
        lengths = torch.tensor([piece.length_bytes for piece in together])
        strides = torch.tensor([piece.stride_bytes for piece in together])
        ends = offsets + (num_blocks - 1) * strides + lengths
        for index, piece in enumerate(together):
            meets = (offsets < ends[index]) & (ends > offsets[index]) & (strides != piece.stride_bytes)
            meets |= _meets_at_equal_strides(piece, index, offsets, lengths, num_blocks) & (
                strides == piece.stride_bytes
            )
            if meets.any():
                other = together[int(meets.nonzero()[0])]
                raise UnsupportedKvCacheError(f"The KV of layers {piece.layer} and {other.layer} overlaps.")


def _meets_at_equal_strides(piece: _Piece, index: int, offsets: Any, lengths: Any, num_blocks: int) -> Any:
    """Whether some block of `piece` and some block of each other share a byte."""
    distances = offsets - piece.offset_bytes
    nearest = torch.round(-distances.double() / max(1, piece.stride_bytes)).long()
    meets = torch.zeros(len(offsets), dtype=torch.bool)
    for neighbour in (-1, 0, 1):
        shift = nearest + neighbour
        gap = distances + shift * piece.stride_bytes
        one = (shift.abs() < num_blocks) & (gap < piece.length_bytes) & (gap > -lengths)
        if neighbour == 0:
            # A block is not in its own way. Its own nearest one is itself.
            one[index] = False
        meets |= one
    return meets


def _merged(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Adjacent runs become one."""
    merged: list[_Piece] = []
    for piece in sorted(pieces, key=lambda one: (*one.lattice, one.offset_bytes)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.lattice == piece.lattice
            and last.offset_bytes + last.length_bytes == piece.offset_bytes
            and last.length_bytes + piece.length_bytes <= piece.stride_bytes
        ):
            length = last.length_bytes + piece.length_bytes
            merged[-1] = _Piece(last.layer, last.storage, last.offset_bytes, length, last.stride_bytes)
        else:
            merged.append(piece)
    return merged


def _grouped(pieces: Sequence[_Piece], num_blocks: int, row_bytes: int) -> tuple[PieceGroup, ...]:
    groups: dict[tuple[int, int, int], list[_Piece]] = {}
    for piece in pieces:
        groups.setdefault((*piece.lattice, piece.length_bytes), []).append(piece)
    made: list[PieceGroup] = []
    image_offset = 0
    # The longest first, so that shorter ones cannot spoil their alignment in the image.
    for (_, stride, length), members in sorted(groups.items(), key=lambda item: -item[0][2]):
        offsets = tuple(piece.offset_bytes for piece in members)
        made.append(PieceGroup(members[0].storage, offsets, length, stride, image_offset, row_bytes, num_blocks))
        image_offset += len(offsets) * length
    return tuple(made)
