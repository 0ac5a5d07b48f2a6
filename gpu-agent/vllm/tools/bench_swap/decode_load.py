"""A forward pass that decodes, as a CUDA graph: it reads all weights of an 8B model for a batch of 16, so memory bounds it."""

from __future__ import annotations

from typing import Any

import torch

_LAYERS = 32
_HIDDEN = 4096
#: Rows of the weights of a layer: attention in and out, MLP in and out, as in Llama-3-8B.
_SHAPES = ((6144, _HIDDEN), (_HIDDEN, 4096), (28_672, _HIDDEN), (_HIDDEN, 14_336))
_BATCH = 16
_TIMED_STEPS = 20


class DecodeLoad:
    def __init__(self, device: Any) -> None:
        self._weights = [[_random(shape, device) for shape in _SHAPES] for _ in range(_LAYERS)]
        self._inputs = {columns: _random((columns, _BATCH), device) for _, columns in _SHAPES}
        self._outputs = {rows: _random((rows, _BATCH), device) for rows, _ in _SHAPES}
        self._graph = torch.cuda.CUDAGraph()
        warm = torch.cuda.Stream(device)
        with torch.cuda.stream(warm):
            self._pass()
        torch.cuda.synchronize(device)
        with torch.cuda.graph(self._graph):
            self._pass()
        self.step_ms = self._time()

    def step(self) -> None:
        self._graph.replay()

    def _pass(self) -> None:
        for layer in self._weights:
            for weight in layer:
                torch.mm(weight, self._inputs[weight.shape[1]], out=self._outputs[weight.shape[0]])

    def _time(self) -> float:
        for _ in range(3):
            self.step()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(_TIMED_STEPS):
            self.step()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / _TIMED_STEPS


def _random(shape: tuple[int, int], device: Any) -> Any:
    return torch.randn(shape, dtype=torch.bfloat16, device=device)
