"""Where blocks lie: as few pieces as the layout allows, and precise refusals."""

import pytest
import torch

from switchyard_vllm.swap.kv_layers import KvLayers, UnsupportedKvCacheError

from .layouts import KvCache, KvShape, page_bytes

SHAPE = KvShape(layers=3, blocks=6, heads=2, tokens=4, content=8, dtype=torch.bfloat16)
PAGE_BYTES = page_bytes(SHAPE)


def layers_of(**changes: object) -> KvLayers:
    shape = KvShape(**{**SHAPE.__dict__, **changes})
    return KvLayers.of(KvCache(shape).tensors, shape.blocks)


@pytest.mark.parametrize(
    ("layout", "pieces", "piece_bytes"),
    [
        ("LBHNC", 3, PAGE_BYTES),
        ("LBNHC", 3, PAGE_BYTES),
        ("LHBNC", 3 * 2, PAGE_BYTES // 2),
        ("BLHNC", 1, 3 * PAGE_BYTES),
        ("BLNHC", 1, 3 * PAGE_BYTES),
        ("BHLNC", 1, 3 * PAGE_BYTES),
    ],
)
def test_a_block_has_as_few_pieces_as_its_layout_allows(layout: str, pieces: int, piece_bytes: int) -> None:
    layers = layers_of(layout=layout)
    (group,) = layers.groups
    assert (len(group.offsets_bytes), group.piece_bytes) == (pieces, piece_bytes)
    assert layers.block_bytes == 3 * PAGE_BYTES


def test_k_and_v_apart_are_two_pieces_a_layer() -> None:
    layers = layers_of(layout="2BNHD")
    assert len(layers.groups) == 3, "a storage for each layer"
    assert all(len(group.offsets_bytes) == 2 and group.piece_bytes == PAGE_BYTES // 2 for group in layers.groups)


def test_kernel_blocks_are_parts_of_one_piece() -> None:
    (group,) = layers_of(kernel_blocks=2).groups
    assert (len(group.offsets_bytes), group.piece_bytes) == (3, PAGE_BYTES)


def test_padding_is_not_copied() -> None:
    layers = layers_of(padding_bytes=32)
    assert layers.block_bytes == 3 * PAGE_BYTES
    assert layers.groups[0].block_stride_bytes == PAGE_BYTES + 32


def test_words_are_as_wide_as_everything_is_aligned() -> None:
    assert layers_of().groups[0].word_bytes == 8
    assert layers_of().groups[0].wide
    narrow = layers_of(heads=1, tokens=1, content=2, dtype=torch.uint8).groups[0]
    assert (narrow.word_bytes, narrow.wide) == (2, False)


def test_layers_that_share_kv_are_copied_once() -> None:
    tensors = KvCache(SHAPE).tensors
    tensors["layers.9"] = tensors["layers.0"]
    assert KvLayers.of(tensors, SHAPE.blocks).block_bytes == 3 * PAGE_BYTES


def refusal(tensors: dict[str, object], num_blocks: int = 6) -> str:
    with pytest.raises(UnsupportedKvCacheError) as refused:
        KvLayers.of(tensors, num_blocks)
    return str(refused.value)


def test_what_cannot_be_swapped_is_refused_by_layer_and_reason() -> None:
    fine = KvCache(SHAPE).tensors["layers.0"]
    assert refusal({}) == "No layer has a KV cache."
    assert "Layer m has no single KV tensor but a list" in refusal({"m": [fine, fine]})
    assert "layer a has dtype torch.float64" in refusal({"a": torch.zeros(6, 2, 4, 8, dtype=torch.float64)})
    assert "layer a is neither [5 blocks, ...]" in refusal({"a": fine}, num_blocks=5)
    assert "shape [6, 48]" in refusal({"a": torch.zeros(6, 48)})
    assert "overlaps itself" in refusal({"a": torch.zeros(6, 1, 4, 8).expand(6, 2, 4, 8)})


def test_layers_over_each_other_are_refused() -> None:
    """Cache groups of a hybrid model: block 3 of one is block 3 of the other, and not the same thing."""
    memory = torch.zeros(6 * 64, dtype=torch.bfloat16)
    full = memory.view(6, 2, 4, 8)
    half = memory[: 6 * 32].view(6, 1, 4, 8)
    assert "layers a and b overlaps" in refusal({"a": full, "b": half})
    shifted = memory.as_strided((5, 2, 4, 8), (64, 32, 8, 1), 32)
    assert "overlaps" in refusal({"a": memory.as_strided((5, 2, 4, 8), (64, 32, 8, 1)), "b": shifted}, num_blocks=5)
    interleaved = [memory.as_strided((6, 1, 4, 8), (64, 32, 8, 1), start) for start in (0, 32)]
    assert KvLayers.of({"a": interleaved[0], "b": interleaved[1]}, 6).block_bytes == 128
