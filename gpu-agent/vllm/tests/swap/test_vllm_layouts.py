"""The layouts that the tests are made from are those of vLLM's own code."""

import pytest
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec, compute_layer_kv_cache_shape_bytes, compute_layout_strides
from vllm.v1.kv_cache_layout import KVCacheLayout

from .layouts import LAYOUTS, KvCache, KvShape


def test_all_of_them() -> None:
    assert {layout.name: layout.stride_order for layout in KVCacheLayout} == LAYOUTS


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float32])
def test_shapes_and_strides(layout: str, dtype: torch.dtype) -> None:
    shape = KvShape(layout=layout, layers=3, blocks=5, heads=2, tokens=16, content=128, dtype=dtype)
    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=64, dtype=dtype)
    logical = (3, *compute_layer_kv_cache_shape_bytes(spec, 5))
    strides = compute_layout_strides(spec, 5, 3, KVCacheLayout[layout])
    tensor = KvCache(shape).tensors["layers.2"].view(torch.uint8)
    assert tuple(tensor.shape) == logical[1:]
    assert tuple(tensor.stride()) == strides[1:]
    assert tensor.storage_offset() == 2 * strides[0]
