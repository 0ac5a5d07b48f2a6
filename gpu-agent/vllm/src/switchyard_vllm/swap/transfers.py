"""What a worker does with images: out, back in, and the copies between.

    swap_out   blocks -> staging (compute stream) -> host (out stream)
    prefetch   host -> staging (into stream)
    swap_in    staging -> blocks (compute stream)

The forward pass that overwrites swapped-out blocks waits for the gather alone, since it comes after it on the compute stream.
It waits for the link only while the staging ring is full: then a gather waits for an earlier copy, chunk by chunk. The host
never waits, except in `reset` and `close`.

Images that are not prefetched come in through the ring of those that go out. So a swap in always proceeds, however many
prefetched images wait for their blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from .checksums import row_checksums
from .copy_backend import CopyBackend
from .host_arena import HostArena, Place
from .kv_layers import KvLayers
from .staging_area import StagingArea
from .staging_ring import Segment, StagingRing
from .streams import Fence, Streams
from .torch_backend import TorchBackend

#: A ring is given back in so many parts, so that a gather waits for no more than it needs.
RING_PARTS = 8


class UnknownImageError(KeyError):
    """No such image is held."""


class ImageCorruptedError(RuntimeError):
    """What came back is not what left. Only raised in debug mode."""


class ImageState(Enum):
    #: Its blocks may be overwritten; its copy to the host is under way.
    LEAVING = "leaving"
    HELD = "held"
    STAGING = "staging"
    #: On the device: a swap in is one scatter.
    STAGED = "staged"


@dataclass(frozen=True, slots=True)
class Moved:
    """A completed transfer."""

    image_id: str
    blocks: int
    #: From its first to its last work on the compute stream: how long the forward pass behind it waited.
    compute_s: float
    #: From its first work anywhere to its last.
    total_s: float


@dataclass(frozen=True, slots=True)
class Completed:
    """Since the last call."""

    #: On the host.
    out: tuple[Moved, ...] = ()
    #: Prefetched.
    staged: tuple[Moved, ...] = ()
    #: Back in blocks.
    loaded: tuple[Moved, ...] = ()


@dataclass(slots=True)
class _Pending:
    kind: str
    image_id: str
    blocks: int
    start: Fence
    end: Fence
    compute: tuple[Fence, Fence] | None = None

    def moved(self) -> Moved:
        compute_s = self.compute[1].seconds_since(self.compute[0]) if self.compute else 0.0
        return Moved(self.image_id, self.blocks, compute_s, self.end.seconds_since(self.start))


@dataclass(slots=True)
class _Image:
    place: Place
    #: The last of its copies to the host.
    left: Fence
    staged: list[tuple[int, Segment]] = field(default_factory=list)
    staged_fence: Fence | None = None
    checksums: Any = None


class SwapTransfers:
    def __init__(
        self,
        backend: CopyBackend,
        arena: HostArena,
        streams: Streams,
        *,
        ring_rows: int,
        prefetch_rows: int,
        checksums: bool = False,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        """`ring_rows`, `prefetch_rows`: blocks of device memory that images pass through, and that prefetched ones wait in."""
        self._backend = backend
        self._arena = arena
        self._streams = streams
        self._ring = StagingRing(backend.layers.empty_image(ring_rows))
        self._prefetched = StagingArea(backend.layers.empty_image(prefetch_rows))
        self._images: dict[str, _Image] = {}
        self._pending: list[_Pending] = []
        self._on_close = on_close
        self._checked = TorchBackend(backend.layers) if checksums else None

    @property
    def layers(self) -> KvLayers:
        return self._backend.layers

    @property
    def images(self) -> int:
        return len(self._images)

    @property
    def free_slabs(self) -> int:
        """Of the arena: 8 blocks each."""
        return self._arena.free_slabs

    def state(self, image_id: str) -> ImageState | None:
        """None: not held."""
        image = self._images.get(image_id)
        if image is None:
            return None
        if image.staged_fence is not None:
            return ImageState.STAGED if image.staged_fence.done() else ImageState.STAGING
        return ImageState.HELD if image.left.done() else ImageState.LEAVING

    def swap_out(self, image_id: str, block_ids: Sequence[int]) -> bool:
        """Makes an image of these blocks. Work enqueued on the compute stream after this may overwrite them.

        False: the arena has no room, and nothing was done. The id must not be held.
        """
        if image_id in self._images:
            raise ValueError(f"Image {image_id} is held already.")
        if not block_ids:
            raise ValueError("An image has one block at least.")
        place = self._arena.take(len(block_ids))
        if place is None:
            return False
        with self._given_back_on_failure(self._ring) as taken:
            try:
                self._leave(image_id, place, block_ids, taken)
            except BaseException:
                self._arena.give_back(place)
                raise
        return True

    def prefetch(self, image_id: str) -> bool:
        """Starts to copy an image to the device. False: there is no room for it there (now, or ever if it is too large).

        An image that is prefetched already stays so.
        """
        image = self._image(image_id)
        if image.staged_fence is not None:
            return True
        rows = image.place.rows
        segments = self._prefetched.take(rows)
        if segments is None:
            return False
        into = self._streams.into
        staged: list[tuple[int, Segment]] = []
        with self._given_back_on_failure(self._prefetched) as taken:
            taken.extend(segments)
            into.wait(image.left)
            start = into.record()
            row = 0
            for segment in segments:
                for fence in segment.after:
                    into.wait(fence)
                self._copy_in(image.place, row, segment, self._prefetched)
                staged.append((row, segment))
                row += segment.rows
        image.staged = staged
        image.staged_fence = into.record()
        self._pending.append(_Pending("staged", image_id, rows, start, image.staged_fence))
        return True

    def unstage(self, image_id: str) -> None:
        """An image that was prefetched gives its room on the device back, and is on the host as before."""
        image = self._images.get(image_id)
        if image is None or image.staged_fence is None:
            return
        self._pending = [one for one in self._pending if (one.kind, one.image_id) != ("staged", image_id)]
        self._unstage(image, image.staged_fence)

    def swap_in(self, image_id: str, block_ids: Sequence[int], first_row: int = 0) -> None:
        """Blocks `block_ids` become the image's rows from `first_row` on, for work enqueued on the compute stream later.

        The image is held until it is dropped; it is not prefetched any more. Raises UnknownImageError.
        """
        image = self._image(image_id)
        if not 0 <= first_row <= first_row + len(block_ids) <= image.place.rows:
            raise ValueError(f"Image {image_id} has {image.place.rows} rows, not {first_row} + {len(block_ids)}.")
        compute = self._streams.compute
        start = compute.record()
        if image.staged_fence is not None:
            compute.wait(image.staged_fence)
            for row, segment in image.staged:
                skipped = min(max(0, first_row - row), segment.rows)
                ids = block_ids[row + skipped - first_row : row + segment.rows - first_row]
                view = self._prefetched.view(segment)[skipped : skipped + len(ids)]
                compute.run(partial(self._backend.scatter, view, ids))
            self._unstage(image, compute.record())
        else:
            with self._given_back_on_failure(self._ring) as taken:
                self._through_ring_in(image, block_ids, first_row, taken)
        end = compute.record()
        if self._checked is not None:
            self._verify(image_id, image, block_ids, first_row)
        self._pending.append(_Pending("loaded", image_id, len(block_ids), start, end, (start, end)))

    def drop(self, image_id: str) -> None:
        """Forgets an image in any state; its room in the arena is free at once. Does nothing if it is not held."""
        image = self._images.pop(image_id, None)
        if image is None:
            return
        if image.staged_fence is not None:
            self._unstage(image, image.staged_fence)
        self._arena.give_back(image.place)
        self._pending = [one for one in self._pending if one.image_id != image_id]

    def completed(self) -> Completed:
        """Asks; does not wait."""
        done = [one for one in self._pending if one.end.done()]
        self._pending = [one for one in self._pending if one not in done]
        kinds = {kind: tuple(one.moved() for one in done if one.kind == kind) for kind in ("out", "staged", "loaded")}
        return Completed(**kinds)

    def finish(self) -> None:
        """Waits for transfers that run."""
        self._streams.finish()

    def reset(self) -> None:
        """All images are void. Waits for transfers that run."""
        self.finish()
        for image_id in list(self._images):
            self.drop(image_id)

    def close(self) -> None:
        """Call once: gives the memory back."""
        self.reset()
        if self._on_close is not None:
            self._on_close()

    def _leave(self, image_id: str, place: Place, block_ids: Sequence[int], taken: list[Segment]) -> None:
        compute, out = self._streams.compute, self._streams.out
        checksums: list[Any] = []
        if self._checked is not None:
            self._checksum(block_ids, checksums)
        start = gathered = compute.record()
        left = start
        for row, segment in self._through_ring(len(block_ids)):
            taken.append(segment)
            for fence in segment.after:
                compute.wait(fence)
            ids = block_ids[row : row + segment.rows]
            compute.run(partial(self._backend.gather, ids, self._ring.view(segment)))
            gathered = compute.record()
            out.wait(gathered)
            parts = self._ring.split(segment, self._part_rows)
            taken[-1:] = parts
            for part in parts:
                self._copy_out(place, row + part.start - segment.start, part)
                left = out.record()
                self._ring.give_back(part, left)
        self._images[image_id] = _Image(place, left, checksums=checksums)
        self._pending.append(_Pending("out", image_id, len(block_ids), start, left, (start, gathered)))

    @contextmanager
    def _given_back_on_failure(self, ring: StagingRing | StagingArea) -> Iterator[list[Segment]]:
        """What is taken from the ring and not given back when something fails, is once nothing uses it."""
        taken: list[Segment] = []
        try:
            yield taken
        except BaseException:
            self._streams.finish()
            for segment in taken:
                if not segment.back:
                    ring.give_back(segment, None)
            raise

    @property
    def _part_rows(self) -> int:
        return max(1, self._ring.rows // RING_PARTS)

    def _image(self, image_id: str) -> _Image:
        image = self._images.get(image_id)
        if image is None:
            raise UnknownImageError(image_id)
        return image

    def _through_ring(self, rows: int) -> Iterator[tuple[int, Segment]]:
        """Ranges of the ring for rows from 0 on: what is ready in one range, then part by part as it becomes so."""
        row = 0
        while row < rows:
            segment = self._ring.take(min(rows - row, max(self._ring.ready_rows, self._part_rows)))
            # Every range was given back by the time the next one is taken.
            assert segment is not None
            yield row, segment
            row += segment.rows

    def _through_ring_in(self, image: _Image, block_ids: Sequence[int], first_row: int, taken: list[Segment]) -> None:
        compute, into = self._streams.compute, self._streams.into
        into.wait(image.left)
        row = 0
        while row < len(block_ids):
            segment = self._ring.take(min(len(block_ids) - row, self._part_rows))
            assert segment is not None
            taken.append(segment)
            for fence in segment.after:
                into.wait(fence)
            self._copy_in(image.place, first_row + row, segment, self._ring)
            arrived = into.record()
            compute.wait(arrived)
            ids = block_ids[row : row + segment.rows]
            compute.run(partial(self._backend.scatter, self._ring.view(segment), ids))
            self._ring.give_back(segment, compute.record())
            row += segment.rows

    def _copy_out(self, place: Place, first_row: int, part: Segment) -> None:
        view = self._ring.view(part)
        for row, host in self._arena.ranges(place, first_row, part.rows):
            device = view[row - first_row : row - first_row + host.shape[0]]
            self._streams.out.run(partial(host.copy_, device, non_blocking=True))

    def _copy_in(self, place: Place, first_row: int, segment: Segment, ring: StagingRing | StagingArea) -> None:
        view = ring.view(segment)
        for row, host in self._arena.ranges(place, first_row, segment.rows):
            device = view[row - first_row : row - first_row + host.shape[0]]
            self._streams.into.run(partial(device.copy_, host, non_blocking=True))

    def _unstage(self, image: _Image, fence: Fence) -> None:
        for _, segment in image.staged:
            self._prefetched.give_back(segment, fence)
        image.staged = []
        image.staged_fence = None

    def _checksum(self, block_ids: Sequence[int], into: list[Any]) -> None:
        """Of the blocks themselves, read without the backend under test."""
        checked = self._checked
        assert checked is not None

        def work() -> None:
            image = checked.layers.empty_image(len(block_ids))
            checked.gather(block_ids, image)
            into.append(row_checksums(image))

        self._streams.compute.run(work)

    def _verify(self, image_id: str, image: _Image, block_ids: Sequence[int], first_row: int) -> None:
        found: list[Any] = []
        self._checksum(block_ids, found)

        def work() -> None:
            wrong = (found[0] != image.checksums[0][first_row : first_row + len(block_ids)]).nonzero().flatten()
            if len(wrong) > 0:
                raise ImageCorruptedError(f"Image {image_id}: rows {(wrong + first_row).tolist()} came back changed.")

        self._streams.compute.run(work)
