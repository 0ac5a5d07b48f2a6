"""All layers of all blocks in one launch: a program copies one chunk of one piece of one block.

Everything is addressed from one storage's start with offsets in words, so the same kernel runs compiled on a GPU and in
Triton's interpreter on CPU tensors. Words of 8 bytes whose addresses are multiples of 16 become accesses of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .copy_backend import BackendUnavailableError, CopyBackend, ids_on
from .kv_layers import KvLayers, PieceGroup

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise BackendUnavailableError("Triton is not installed.") from error

#: A program's share at most: four accesses of 16 bytes for each of its 256 threads.
CHUNK_BYTES = 16_384
WARPS = 8


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _copy_blocks(  # type: ignore[no-untyped-def, unused-ignore]
    base,
    image,
    block_ids,
    piece_offsets,
    pieces,
    chunks,
    piece_words,
    block_stride_words,
    row_words,
    CHUNK_WORDS: tl.constexpr,  # noqa: N803
    MULTIPLE: tl.constexpr,  # noqa: N803
    EVEN: tl.constexpr,  # noqa: N803
    TO_IMAGE: tl.constexpr,  # noqa: N803
) -> None:
    program = tl.program_id(0)
    chunk = program % chunks
    piece = (program // chunks) % pieces
    row = program // (chunks * pieces)
    block = tl.load(block_ids + row)
    in_base = tl.multiple_of(tl.load(piece_offsets + piece) + block * block_stride_words, MULTIPLE)
    in_image = tl.multiple_of(row.to(tl.int64) * row_words + piece * piece_words, MULTIPLE)
    words = chunk * CHUNK_WORDS + tl.arange(0, CHUNK_WORDS)
    kv = base + in_base + words
    part = image + in_image + words
    if EVEN:
        if TO_IMAGE:
            tl.store(part, tl.load(kv))
        else:
            tl.store(kv, tl.load(part))
    else:
        mask = words < piece_words
        if TO_IMAGE:
            tl.store(part, tl.load(kv, mask=mask), mask=mask)
        else:
            tl.store(kv, tl.load(part, mask=mask), mask=mask)


@dataclass(frozen=True, slots=True)
class _Launch:
    """What stays the same for a group of pieces."""

    base: Any
    piece_offsets: Any
    pieces: int
    piece_words: int
    block_stride_words: int
    image_offset_words: int
    chunk_words: int
    multiple: int

    @classmethod
    def of(cls, group: PieceGroup) -> _Launch:
        size = group.word_bytes
        words = group.piece_bytes // size
        offsets = torch.tensor(group.offsets_bytes, dtype=torch.int64) // size
        return cls(
            group.words(),
            offsets.to(group.storage.device),
            len(group.offsets_bytes),
            words,
            group.block_stride_bytes // size,
            group.image_offset_bytes // size,
            min(triton.next_power_of_2(words), CHUNK_BYTES // size),
            16 // size if group.wide else 1,
        )

    def run(self, image: Any, block_ids: Any, *, to_image: bool) -> None:
        rows = image.shape[0]
        words = image.view(self.base.dtype)
        chunks = -(-self.piece_words // self.chunk_words)
        _copy_blocks[(rows * self.pieces * chunks,)](
            self.base,
            words[:, self.image_offset_words :],
            block_ids,
            self.piece_offsets,
            self.pieces,
            chunks,
            self.piece_words,
            self.block_stride_words,
            words.shape[1],
            CHUNK_WORDS=self.chunk_words,
            MULTIPLE=self.multiple,
            EVEN=self.piece_words % self.chunk_words == 0,
            TO_IMAGE=to_image,
            num_warps=WARPS,
        )


class TritonBackend(CopyBackend):
    name = "triton"

    def __init__(self, layers: KvLayers) -> None:
        super().__init__(layers)
        if layers.device.type != "cuda" and not triton.knobs.runtime.interpret:
            raise BackendUnavailableError(
                "Triton compiles for GPUs. On a CPU set TRITON_INTERPRET=1 before it is imported."
            )
        self._launches = [_Launch.of(group) for group in layers.groups]
        self._warm_up()

    def gather(self, block_ids: Sequence[int], image: Any) -> None:
        self._run(block_ids, image, to_image=True)

    def scatter(self, image: Any, block_ids: Sequence[int]) -> None:
        self._run(block_ids, image, to_image=False)

    def _warm_up(self) -> None:
        """Compiles both directions before the first call needs them. Block 0 stays as it is."""
        image = self.layers.empty_image(1)
        self.gather([0], image)
        self.scatter(image, [0])

    def _run(self, block_ids: Sequence[int], image: Any, *, to_image: bool) -> None:
        self._check(image, block_ids)
        if not block_ids:
            return
        ids = ids_on(self.layers.device, block_ids)
        for launch in self._launches:
            launch.run(image, ids, to_image=to_image)
