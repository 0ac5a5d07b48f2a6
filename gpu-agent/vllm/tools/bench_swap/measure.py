"""Times one way of moving KV: what the compute stream waits, when the copy is complete, what it costs decoding beside it.

Times are between events on the streams. A measurement starts on an idle device, so the host's own work (addresses, launches)
counts. The median of several is reported.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from switchyard_vllm.swap.kv_layers import KvLayers
from switchyard_vllm.swap.streams import Fence, Streams
from switchyard_vllm.swap.torch_backend import TorchBackend

from .decode_load import DecodeLoad
from .methods import Method, WriteThrough

#: Tokens whose blocks a step of prefill fills.
FILL_TOKENS = 2048
#: Steps of decoding before a transfer, which the device still works on while the host prepares the transfer.
_STEPS_BEFORE = 3
#: After it, beyond those that it lasts.
_STEPS_AFTER = 1
#: So that the host is ahead of the device: a device that spins for some 30 ms.
_SPIN_CYCLES = 60_000_000
_LINK_BYTES = 2**30
#: Compared at a time, so that the reference's temporaries stay small.
_PART_BLOCKS = 512


@dataclass(frozen=True)
class Link:
    """Measured with one copy of pinned memory."""

    out_gb_per_s: float
    in_gb_per_s: float


@dataclass(frozen=True)
class Timed:
    compute_stream_ms: float
    done_ms: float


@dataclass(frozen=True)
class Beside:
    """Part of a transfer beside decoding: `begin`, some steps, `finish`."""

    begin: Callable[[], object]
    finish: Callable[[], object]


class Measure:
    def __init__(self, layers: KvLayers, streams: Streams, load: DecodeLoad | None, repeats: int) -> None:
        self._layers = layers
        self._streams = streams
        self._load = load
        self._repeats = repeats

    def out(self, method: Method, calls: Sequence[Sequence[int]], block_tokens: int) -> dict[str, Any]:
        """Of all `calls` one after the other."""

        def work() -> Fence:
            return self._all_out(method, calls)

        def after() -> None:
            self._forget(method, calls)

        figures = self._figures([self._timed(work, _nothing, after) for _ in range(self._repeats + 1)][1:])
        if self._layers.device.type == "cuda":
            busy = [self._timed(work, _spin, after) for _ in range(self._repeats)]
            figures["compute_stream_busy_ms"] = statistics.median(one.compute_stream_ms for one in busy)
        if isinstance(method, WriteThrough):
            # Most is copied before, beside earlier steps. This is what all of it costs.
            fills = [
                fill
                for slot, call in enumerate(calls)
                for fill in method.fills(slot, call, FILL_TOKENS // block_tokens)
            ]
            filled = [
                self._timed(lambda: [fill() for fill in fills][-1], _nothing, _nothing)
                for _ in range(self._repeats + 1)
            ]
            figures["filled_before_ms"] = statistics.median(one.done_ms for one in filled[1:])
            beside = [Beside(fill, _nothing) for fill in fills]
            figures["decode_slowdown"] = self._slowdown(beside, figures["filled_before_ms"], _nothing, _nothing)
        else:
            figures["decode_slowdown"] = self._slowdown([Beside(work, _nothing)], figures["done_ms"], _nothing, after)
        return figures

    def back(self, method: Method, calls: Sequence[Sequence[int]]) -> dict[str, Any]:
        """`compute_stream_ms`: from when the blocks are allocated, with what can be prepared prepared before."""

        def before() -> None:
            self._all_out(method, calls)
            self._streams.finish()

        def work() -> Fence:
            return self._all_back(method, calls)

        def after() -> None:
            self._forget(method, calls)

        figures = self._figures([self._timed(work, before, after) for _ in range(self._repeats + 1)][1:])
        if len(calls) == 1:
            prepared = [self._prepared_back(method, calls[0]) for _ in range(self._repeats)]
            figures["compute_stream_ms"] = statistics.median(prepared)
        beside = [
            Beside(partial(self._begin, method, slot, call), partial(method.finish, slot, call))
            for slot, call in enumerate(calls)
        ]
        figures["decode_slowdown"] = self._slowdown(beside, figures["done_ms"], before, after)
        return figures

    def slowdown_beside(self, work: Callable[[], Fence]) -> float | None:
        done_ms = self._timed(work, _nothing, _nothing).done_ms
        return self._slowdown([Beside(work, _nothing)], done_ms, _nothing, _nothing)

    def exact(self, method: Method, calls: Sequence[Sequence[int]]) -> bool:
        """Whether all calls come back bit-exact after others have written to their blocks."""
        reference = TorchBackend(self._layers)
        blocks = [block for call in calls for block in call]
        images = []
        for part in _parts(blocks):
            images.append(self._layers.empty_image(len(part)))
            reference.gather(part, images[-1])
        if isinstance(method, WriteThrough):
            for slot, call in enumerate(calls):
                for fill in method.fills(slot, call, _PART_BLOCKS):
                    fill()
        self._all_out(method, calls)
        for part, image in zip(_parts(blocks), images, strict=True):
            reference.scatter(255 - image, part)
        self._streams.finish()
        self._all_back(method, calls)
        found = self._layers.empty_image(len(_parts(blocks)[0]))
        same = True
        for part, image in zip(_parts(blocks), images, strict=True):
            reference.gather(part, found[: len(part)])
            same = same and bool(torch.equal(found[: len(part)], image))
        self._streams.finish()
        self._forget(method, calls)
        return same

    def _all_out(self, method: Method, calls: Sequence[Sequence[int]]) -> Fence:
        fences = [method.out(slot, call) for slot, call in enumerate(calls)]
        return fences[-1]

    def _prepared_back(self, method: Method, call: Sequence[int]) -> float:
        def before() -> None:
            method.out(0, call)
            self._streams.finish()
            method.prepare(0)
            self._streams.finish()

        def work() -> Fence:
            method.begin(0, call)
            method.finish(0, call)
            return self._streams.compute.record()

        return self._timed(work, before, lambda: method.forget(0)).compute_stream_ms

    def _begin(self, method: Method, slot: int, call: Sequence[int]) -> None:
        method.prepare(slot)
        method.begin(slot, call)

    def _all_back(self, method: Method, calls: Sequence[Sequence[int]]) -> Fence:
        prepared = 0
        for slot, call in enumerate(calls):
            while prepared < len(calls) and method.prepare(prepared):
                prepared += 1
            method.begin(slot, call)
            method.finish(slot, call)
            prepared = max(prepared, slot + 1)
        return self._streams.compute.record()

    def _forget(self, method: Method, calls: Sequence[Sequence[int]]) -> None:
        for slot in range(len(calls)):
            method.forget(slot)

    def _timed(self, work: Callable[[], Fence], before: Callable[[], object], after: Callable[[], object]) -> Timed:
        self._streams.finish()
        before()
        start = self._streams.compute.record()
        done = work()
        overwritable = self._streams.compute.record()
        self._streams.finish()
        after()
        return Timed(overwritable.seconds_since(start) * 1000, done.seconds_since(start) * 1000)

    def _figures(self, timed: Sequence[Timed]) -> dict[str, Any]:
        return {
            "compute_stream_ms": statistics.median(one.compute_stream_ms for one in timed),
            "done_ms": statistics.median(one.done_ms for one in timed),
        }

    def _slowdown(
        self, beside: Sequence[Beside], done_ms: float, before: Callable[[], object], after: Callable[[], object]
    ) -> float | None:
        """Of decoding that goes on before, during and after the transfer. 0.05: its steps take 5 % longer in that time."""
        load = self._load
        if load is None:
            return None
        steps = math.ceil(done_ms / load.step_ms / len(beside))

        def decode(transfers: bool) -> float:
            if transfers:
                before()
            self._streams.finish()
            for _ in range(_STEPS_BEFORE):
                load.step()
            start = self._streams.compute.record()
            for one in beside:
                if transfers:
                    one.begin()
                for _ in range(steps):
                    load.step()
                if transfers:
                    one.finish()
            for _ in range(_STEPS_AFTER):
                load.step()
            end = self._streams.compute.record()
            self._streams.finish()
            if transfers:
                after()
            return end.seconds_since(start)

        pairs = [(decode(False), decode(True)) for _ in range(self._repeats)]
        return statistics.median(with_it for _, with_it in pairs) / statistics.median(alone for alone, _ in pairs) - 1


def link_limit(layers_device: Any, host: Any, streams: Streams, repeats: int) -> Link:
    size = min(_LINK_BYTES, host.numel())
    device = torch.empty(size, dtype=torch.uint8, device=layers_device)
    speeds = []
    for to, from_, stream in ((host[:size], device, streams.out), (device, host[:size], streams.into)):
        best_s = math.inf
        for _ in range(repeats + 2):
            streams.finish()
            start = stream.record()
            stream.run(partial(to.copy_, from_, non_blocking=True))
            end = stream.record()
            streams.finish()
            best_s = min(best_s, end.seconds_since(start))
        speeds.append(size / best_s / 1e9)
    return Link(*speeds)


def link_beside_decode(
    layers: KvLayers, host: Any, streams: Streams, load: DecodeLoad, repeats: int
) -> dict[str, float | None]:
    """The slowdown of decoding beside one plain copy of 1 GiB, each way: what no method can avoid."""
    size = min(_LINK_BYTES, host.numel())
    device = torch.empty(size, dtype=torch.uint8, device=layers.device)
    measure = Measure(layers, streams, load, repeats)
    found: dict[str, float | None] = {}
    for name, to, from_, stream in (
        ("out", host[:size], device, streams.out),
        ("in", device, host[:size], streams.into),
    ):

        def copy(to: Any = to, from_: Any = from_, stream: Any = stream) -> Fence:
            stream.run(lambda: to.copy_(from_, non_blocking=True))
            fence: Fence = stream.record()
            return fence

        found[name] = measure.slowdown_beside(copy)
    return found


def _parts(blocks: Sequence[int]) -> list[Sequence[int]]:
    return [blocks[start : start + _PART_BLOCKS] for start in range(0, len(blocks), _PART_BLOCKS)]


def _spin() -> None:
    torch.cuda._sleep(_SPIN_CYCLES)


def _nothing() -> None:
    pass
