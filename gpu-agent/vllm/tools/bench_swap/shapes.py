"""The KV that is moved: models' shapes in vLLM's layouts, as views of one pool of device memory."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch

from switchyard_vllm.swap.kv_layers import KvLayers

#: Physical order of the logical axes layer, block, head, token, content.
_LAYOUTS = {"LBHNC": (0, 1, 2, 3, 4), "LHBNC": (0, 2, 1, 3, 4), "BLHNC": (1, 0, 2, 3, 4)}
#: K and V apart: [2, blocks, tokens, heads, head size].
SPLIT = "2BNHD"
LAYOUTS = (*_LAYOUTS, SPLIT)
_HEAD_SIZE = 128
_BF16_BYTES = 2


@dataclass(frozen=True)
class Model:
    """Of one tensor-parallel rank."""

    layers: int
    kv_heads: int


MODELS = {
    "llama-3-8b": Model(layers=32, kv_heads=8),
    "llama-3-70b-tp4": Model(layers=80, kv_heads=2),
    "llama-3-70b-tp8": Model(layers=80, kv_heads=1),
    # For machines without a GPU.
    "tiny": Model(layers=4, kv_heads=1),
}


@dataclass(frozen=True)
class KvPlan:
    model: str
    block_tokens: int
    layout: str

    @property
    def block_bytes(self) -> int:
        model = MODELS[self.model]
        return model.layers * model.kv_heads * self.block_tokens * 2 * _HEAD_SIZE * _BF16_BYTES

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)


def kv_layers(plan: KvPlan, pool: Any) -> KvLayers:
    """`pool`: bytes. As many blocks as fit."""
    model = MODELS[plan.model]
    blocks = pool.numel() // plan.block_bytes
    elements = pool[: blocks * plan.block_bytes].view(torch.bfloat16)
    names = [f"layers.{index}" for index in range(model.layers)]
    if plan.layout == SPLIT:
        shape = (model.layers, 2, blocks, plan.block_tokens, model.kv_heads, _HEAD_SIZE)
        return KvLayers.of(dict(zip(names, elements.view(shape), strict=True)), blocks)
    logical = (model.layers, blocks, model.kv_heads, plan.block_tokens, 2 * _HEAD_SIZE)
    order = _LAYOUTS[plan.layout]
    physical = elements.view([logical[axis] for axis in order])
    whole = physical.permute([order.index(axis) for axis in range(5)])
    return KvLayers.of(dict(zip(names, whole, strict=True)), blocks)


def scattered(num_blocks: int, calls: int, blocks_per_call: int, seed: int) -> list[list[int]]:
    """Block tables of several calls: no two neighbours, as in a pool that has been in use for a while."""
    ids = random.Random(seed).sample(range(num_blocks), calls * blocks_per_call)
    return [ids[index * blocks_per_call : (index + 1) * blocks_per_call] for index in range(calls)]
