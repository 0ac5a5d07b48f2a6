"""The reference: indexing over views. On a GPU it takes two kernels for each group of pieces, and a temporary of its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .copy_backend import CopyBackend, ids_on


class TorchBackend(CopyBackend):
    name = "torch"

    def gather(self, block_ids: Sequence[int], image: Any) -> None:
        self._check(image, block_ids)
        ids = ids_on(self.layers.device, block_ids)
        for blocks, part in self._parts(image):
            part.copy_(blocks.index_select(0, ids))

    def scatter(self, image: Any, block_ids: Sequence[int]) -> None:
        self._check(image, block_ids)
        ids = ids_on(self.layers.device, block_ids)
        for blocks, part in self._parts(image):
            blocks.index_copy_(0, ids, part)

    def _parts(self, image: Any) -> Iterator[tuple[Any, Any]]:
        """Views of the same shape, over blocks and over the image's rows."""
        for group in self.layers.groups:
            part = group.image_words(image)
            blocks = group.pieces()
            if blocks is not None:
                yield blocks, part
                continue
            for index in range(len(group.offsets_bytes)):
                yield group.piece(index), part[:, index : index + 1]
