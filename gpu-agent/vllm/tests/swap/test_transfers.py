"""What leaves comes back bit-exact: with any interleaving of streams, after any drop, and through the smallest rings."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from switchyard_vllm.swap.host_arena import HostArena
from switchyard_vllm.swap.kv_layers import KvLayers
from switchyard_vllm.swap.settings import SwapSettings, swap_transfers
from switchyard_vllm.swap.slab_pool import SLAB_BLOCKS
from switchyard_vllm.swap.streams import streams_of
from switchyard_vllm.swap.torch_backend import TorchBackend
from switchyard_vllm.swap.transfers import ImageCorruptedError, ImageState, SwapTransfers, UnknownImageError

from .backends import BACKENDS, DEVICE
from .layouts import LAYOUTS, SPLIT, KvCache, KvShape
from .lazy_streams import LazyStreams

BLOCKS = 60


def cache_of(layout: str = "LBHNC", seed: int = 0) -> KvCache:
    return KvCache(KvShape(layout=layout, layers=2, blocks=BLOCKS, heads=1, tokens=2, content=8), seed)


def settings_of(cache: KvCache, **changes: Any) -> SwapSettings:
    row_bytes = KvLayers.of(cache.tensors, BLOCKS).block_bytes
    rows = {"ring_rows": 16, "prefetch_rows": 16} | {
        key: changes.pop(key) for key in list(changes) if key.endswith("_rows")
    }
    sizes = {"ring_bytes": rows["ring_rows"] * row_bytes, "prefetch_bytes": rows["prefetch_rows"] * row_bytes}
    return SwapSettings(**({"arena_blocks": 256, **sizes} | changes))


def transfers_of(cache: KvCache, **changes: Any) -> SwapTransfers:
    return swap_transfers(cache.tensors, BLOCKS, settings_of(cache, **changes))


def finish() -> None:
    streams_of(DEVICE).finish()


class Storm:
    """Calls that leave and return at random while forward passes write into every block that no call has."""

    def __init__(self, seed: int, *, waits_count: bool = True) -> None:
        self.dice = random.Random(seed)
        self.cache = cache_of(self.dice.choice([*LAYOUTS, SPLIT]), seed)
        layers = KvLayers.of(self.cache.tensors, BLOCKS)
        self.streams = LazyStreams(seed, waits_count=waits_count)
        arena = HostArena(layers.empty_image(self.dice.choice([40, 96]), device="cpu"))
        self.slabs = arena.slabs
        self.transfers = SwapTransfers(
            TorchBackend(layers),
            arena,
            self.streams,
            ring_rows=self.dice.randint(1, 24),
            prefetch_rows=self.dice.randint(1, 24),
        )
        #: Blocks of each call on the device, by call.
        self.resident: dict[str, list[int]] = {}
        self.swapped: dict[str, int] = {}
        self.content: dict[str, list[Any]] = {}
        self.wrong = 0
        self.compared = 0
        self.calls = 0

    def free_blocks(self) -> list[int]:
        used = {block for blocks in self.resident.values() for block in blocks}
        return [block for block in range(BLOCKS) if block not in used]

    def forward_pass(self) -> None:
        """Enqueued like vLLM's: what is written to the free blocks must not reach any image."""
        blocks, seed = self.free_blocks(), self.dice.randrange(1000)
        self.streams.compute.run(lambda: self.cache.scribble(blocks, seed))

    def start_call(self) -> None:
        free = self.free_blocks()
        if not free:
            return
        call = f"call {self.calls}"
        self.calls += 1
        self.resident[call] = self.dice.sample(free, self.dice.randint(1, min(20, len(free))))
        blocks, seed = self.resident[call], self.dice.randrange(1000)
        self.streams.compute.run(lambda: self.cache.scribble(blocks, seed))
        self.streams.compute.run(lambda: self.content.__setitem__(call, self.cache.blocks_of(blocks)))

    def swap_out(self) -> None:
        call = self.dice.choice(list(self.resident))
        slabs = -(-len(self.resident[call]) // SLAB_BLOCKS)
        fits = slabs <= self.transfers.free_slabs
        assert self.transfers.swap_out(call, self.resident[call]) is fits
        blocks = self.resident.pop(call)
        if fits:
            self.swapped[call] = len(blocks)
        self.forward_pass()

    def prefetch(self) -> None:
        self.transfers.prefetch(self.dice.choice(list(self.swapped)))

    def unstage(self) -> None:
        self.transfers.unstage(self.dice.choice(list(self.swapped)))

    def swap_in(self) -> None:
        call = self.dice.choice(list(self.swapped))
        free = self.free_blocks()
        first = self.dice.randrange(self.swapped[call]) if self.dice.random() < 0.3 else 0
        if len(free) < self.swapped[call] - first:
            return
        blocks = self.dice.sample(free, self.swapped[call] - first)
        self.transfers.swap_in(call, blocks, first)
        self.streams.compute.run(lambda: self.compare(call, blocks, first))
        if self.dice.random() < 0.7:
            self.drop(call)
        self.forward_pass()

    def drop(self, call: str) -> None:
        self.transfers.drop(call)
        self.swapped.pop(call)

    def compare(self, call: str, blocks: Sequence[int], first: int) -> None:
        self.compared += 1
        found = self.cache.blocks_of(blocks)
        if not all(torch.equal(now, then[first:]) for now, then in zip(found, self.content[call], strict=True)):
            self.wrong += 1

    def play(self, steps: int) -> None:
        for _ in range(steps):
            actions: list[Callable[[], object]] = [self.start_call, self.forward_pass]
            if self.streams.waits_count:
                actions += [self.transfers.completed]
            if self.resident:
                actions += [self.swap_out] * 3
            if self.swapped:
                actions += [self.prefetch, self.prefetch, self.unstage, self.swap_in, self.swap_in]
                actions += [lambda: self.drop(self.dice.choice(list(self.swapped)))]
            self.dice.choice(actions)()
            self.streams.advance(self.dice.choice([0, 1, 5, 40]))
        self.streams.finish()


@pytest.mark.parametrize("seed", range(40))
def test_calls_come_back_bit_exact_however_the_streams_interleave(seed: int) -> None:
    storm = Storm(seed)
    storm.play(120)
    assert storm.compared > 0
    assert storm.wrong == 0
    for call in list(storm.swapped):
        storm.drop(call)
    assert storm.transfers.free_slabs == storm.slabs
    assert storm.transfers.images == 0


def test_streams_that_do_not_wait_for_each_other_fail_the_same_check() -> None:
    """The negative control: without fences some interleaving brings back other bytes."""
    storms = [Storm(seed, waits_count=False) for seed in range(10)]
    for storm in storms:
        storm.play(120)
    assert sum(storm.wrong for storm in storms) > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_image_through_all_its_states(backend: str) -> None:
    cache = cache_of()
    transfers = transfers_of(cache, backend=backend, checksums=True)
    assert transfers.swap_out("a", [3, 7, 5])
    cache.scribble([3, 7, 5], seed=1)
    finish()
    assert transfers.state("a") is ImageState.HELD
    assert [moved.image_id for moved in transfers.completed().out] == ["a"]
    assert transfers.prefetch("a")
    assert transfers.prefetch("a"), "a second prefetch changes nothing"
    finish()
    assert transfers.state("a") is ImageState.STAGED
    assert [(moved.image_id, moved.blocks) for moved in transfers.completed().staged] == [("a", 3)]
    transfers.swap_in("a", [3, 7, 5])
    finish()
    assert cache.as_expected()
    assert transfers.state("a") is ImageState.HELD
    assert [moved.image_id for moved in transfers.completed().loaded] == ["a"]
    transfers.drop("a")
    transfers.drop("a")
    assert transfers.state("a") is None
    assert transfers.completed().loaded == ()
    transfers.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_sixteen_swaps_in_a_row_exhaust_the_ring_and_all_come_back(backend: str) -> None:
    cache = KvCache(KvShape(layers=2, blocks=16 * 12, heads=1, tokens=2, content=8))
    rows = KvLayers.of(cache.tensors, cache.shape.blocks).block_bytes
    sizes = SwapSettings(arena_blocks=16 * 16, ring_bytes=20 * rows, prefetch_bytes=20 * rows, backend=backend)
    transfers = swap_transfers(cache.tensors, cache.shape.blocks, sizes)
    order = random.Random(5).sample(range(16 * 12), 16 * 12)
    calls = [order[index * 12 : index * 12 + 12] for index in range(16)]
    for index, blocks in enumerate(calls):
        assert transfers.swap_out(f"{index}", blocks)
    cache.scribble(order, seed=3)
    for index, blocks in enumerate(calls):
        transfers.swap_in(f"{index}", blocks)
    finish()
    assert cache.as_expected()
    transfers.close()


def test_an_image_larger_than_the_rings_moves_in_parts() -> None:
    cache = cache_of()
    transfers = transfers_of(cache, ring_rows=3, prefetch_rows=4)
    blocks = list(range(BLOCKS))
    assert transfers.swap_out("a", blocks)
    cache.scribble(blocks, seed=1)
    assert not transfers.prefetch("a"), "it never fits"
    transfers.swap_in("a", blocks)
    finish()
    assert cache.as_expected()
    transfers.close()


def test_prefetched_images_that_wait_do_not_keep_others_out() -> None:
    cache = cache_of()
    transfers = transfers_of(cache, ring_rows=4, prefetch_rows=10)
    for image, blocks in (("a", range(10)), ("b", range(10, 30))):
        assert transfers.swap_out(image, list(blocks))
    assert transfers.prefetch("a")
    assert not transfers.prefetch("b")
    cache.scribble(list(range(30)), seed=1)
    transfers.swap_in("b", list(range(10, 30)))
    transfers.swap_in("a", list(range(10)))
    assert transfers.prefetch("a"), "its room is free once it is back"
    finish()
    assert cache.as_expected()
    transfers.close()


def test_an_image_that_gives_its_room_back_is_held_and_can_be_prefetched_again() -> None:
    cache = cache_of()
    transfers = transfers_of(cache, ring_rows=4, prefetch_rows=20)
    for image, blocks in (("a", range(8)), ("b", range(8, 16)), ("c", range(16, 28))):
        assert transfers.swap_out(image, list(blocks))
    cache.scribble(list(range(28)), seed=1)
    assert transfers.prefetch("a") and transfers.prefetch("b")
    transfers.unstage("unknown")
    transfers.unstage("c")
    # Not the oldest: its room is of use all the same.
    transfers.unstage("b")
    finish()
    assert transfers.state("b") is ImageState.HELD
    assert transfers.prefetch("c"), "in the room of another and what was free"
    finish()
    assert [moved.image_id for moved in transfers.completed().staged] == ["a", "c"]
    for image, blocks in (("c", range(16, 28)), ("b", range(8, 16)), ("a", range(8))):
        assert transfers.prefetch(image)
        transfers.swap_in(image, list(blocks))
    finish()
    assert cache.as_expected()
    transfers.close()


def test_a_full_arena_refuses_and_takes_the_next_once_there_is_room() -> None:
    cache = cache_of()
    transfers = transfers_of(cache, arena_blocks=2 * SLAB_BLOCKS)
    assert transfers.swap_out("a", list(range(SLAB_BLOCKS + 1)))
    assert not transfers.swap_out("b", [30])
    assert transfers.state("b") is None
    transfers.drop("a")
    assert transfers.swap_out("b", [30])
    transfers.close()


def test_a_reset_voids_all_images_and_returns_all_memory() -> None:
    cache = cache_of()
    transfers = transfers_of(cache)
    free = transfers.free_slabs
    for index in range(5):
        assert transfers.swap_out(f"{index}", list(range(index * 10, index * 10 + 10)))
    transfers.prefetch("0")
    transfers.reset()
    assert (transfers.images, transfers.free_slabs) == (0, free)
    with pytest.raises(UnknownImageError):
        transfers.swap_in("0", list(range(10)))
    assert transfers.swap_out("0", list(range(10)))
    assert transfers.prefetch("0")
    transfers.close()


class Failing(TorchBackend):
    """Fails the next `failures` times."""

    failures = 0

    def gather(self, block_ids: Sequence[int], image: Any) -> None:
        self._fail()
        super().gather(block_ids, image)

    def scatter(self, image: Any, block_ids: Sequence[int]) -> None:
        self._fail()
        super().scatter(image, block_ids)

    def _fail(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise RuntimeError("out of memory")


@pytest.mark.parametrize("failing", ["gather", "copy out", "prefetch", "copy in", "scatter"])
def test_what_fails_leaves_nothing_behind(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_of()
    layers = KvLayers.of(cache.tensors, BLOCKS)
    backend = Failing(layers)
    arena = HostArena(layers.empty_image(8 * SLAB_BLOCKS, device="cpu"))
    transfers = SwapTransfers(backend, arena, streams_of(DEVICE), ring_rows=10, prefetch_rows=10)
    blocks = list(range(8))
    # So often that anything left behind would fill the rings and the arena.
    for attempt in range(20):
        if failing in ("gather", "copy out"):
            fail_once(failing == "gather", backend, monkeypatch)
            with pytest.raises(RuntimeError, match="out of memory"):
                transfers.swap_out("a", blocks)
            assert transfers.state("a") is None
            assert transfers.free_slabs == arena.slabs
        assert transfers.swap_out("a", blocks)
        cache.scribble(blocks, seed=attempt)
        if failing == "prefetch":
            fail_once(False, backend, monkeypatch)
            with pytest.raises(RuntimeError, match="out of memory"):
                transfers.prefetch("a")
            assert transfers.prefetch("a")
        if failing in ("scatter", "copy in"):
            fail_once(failing == "scatter", backend, monkeypatch)
            with pytest.raises(RuntimeError, match="out of memory"):
                transfers.swap_in("a", blocks)
        transfers.swap_in("a", blocks)
        finish()
        assert cache.as_expected()
        transfers.drop("a")


def fail_once(in_backend: bool, backend: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_backend:
        backend.failures = 1
        return
    ranges = HostArena.ranges

    def failing(*_: Any) -> None:
        monkeypatch.setattr(HostArena, "ranges", ranges)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(HostArena, "ranges", failing)


def test_misuse_is_refused() -> None:
    transfers = transfers_of(cache_of())
    with pytest.raises(UnknownImageError):
        transfers.prefetch("a")
    assert transfers.swap_out("a", [1, 2])
    with pytest.raises(ValueError, match="held already"):
        transfers.swap_out("a", [3])
    with pytest.raises(ValueError, match="one block"):
        transfers.swap_out("b", [])
    with pytest.raises(ValueError, match="has 2 rows"):
        transfers.swap_in("a", [1, 2], first_row=1)
    with pytest.raises(ValueError, match="8 blocks at least"):
        transfers_of(cache_of(), arena_blocks=SLAB_BLOCKS - 1)
    transfers.close()


@pytest.mark.parametrize("prefetched", [True, False])
def test_checksums_find_a_corrupted_image(prefetched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_of()
    transfers = transfers_of(cache, checksums=True)
    ranges = HostArena.ranges

    def corrupted(arena: HostArena, *where: Any) -> list[tuple[int, Any]]:
        found = ranges(arena, *where)
        finish()
        found[-1][1][-1, 3] ^= 4
        return found

    assert transfers.swap_out("a", list(range(12)))
    monkeypatch.setattr(HostArena, "ranges", corrupted)
    if prefetched:
        assert transfers.prefetch("a")
    with pytest.raises(ImageCorruptedError, match=r"rows \[.*11.*\] came back changed"):
        transfers.swap_in("a", list(range(12)))
    monkeypatch.undo()
    transfers.close()
