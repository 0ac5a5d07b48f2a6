"""What the scheduler's side of the swap tells the workers' side with each step, and what they answer. Plain data: it is
pickled.

An *image* is the KV of a preempted call's own blocks: one row a block, in the order of its positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SwapOut:
    """The blocks become an image, before this step writes to any block."""

    image: int
    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SwapIn:
    """Rows of a staged image become the blocks, before this step reads any."""

    image: int
    #: Of the first block. What lies before it was found in the prefix cache.
    first_row: int
    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Orders:
    """Carried out in the order of the fields."""

    #: Ascending. A worker may be handed the same orders twice.
    step: int
    #: All images are void.
    reset: bool = False
    drop: tuple[int, ...] = ()
    out: tuple[SwapOut, ...] = ()
    #: Their room on the device goes to the next ones.
    unstage: tuple[int, ...] = ()
    prefetch: tuple[int, ...] = ()
    into: tuple[SwapIn, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyCosts:
    """What moving a call's KV takes: an operation by itself, and a token each way."""

    base_us: float
    save_us_per_token: float
    restore_us_per_token: float

    def slowest(self, other: CopyCosts) -> CopyCosts:
        """Of two ranks, which move their parts of a call side by side."""
        return CopyCosts(
            max(self.base_us, other.base_us),
            max(self.save_us_per_token, other.save_us_per_token),
            max(self.restore_us_per_token, other.restore_us_per_token),
        )


@dataclass(slots=True)
class Report:
    """What has completed since the last report, of one rank or of several."""

    #: By image, the ranks on which it can be swapped in at once.
    staged: dict[int, int] = field(default_factory=dict)
    #: By image, the ranks on which it is on the host.
    left: dict[int, int] = field(default_factory=dict)
    #: By image, the ranks on which it could not be kept.
    lost: dict[int, int] = field(default_factory=dict)
    #: By image, the time of its transfers on the slowest rank, us.
    moved_us: dict[int, int] = field(default_factory=dict)
    #: Blocks that were to be restored in this step and were not.
    unloaded_blocks: set[int] = field(default_factory=set)
    #: Of the slowest rank; in its first report only.
    copy_costs: CopyCosts | None = None

    def add(self, other: Report) -> None:
        """Of another rank, in the same step."""
        for image, ranks in other.staged.items():
            self.staged[image] = self.staged.get(image, 0) + ranks
        for image, ranks in other.left.items():
            self.left[image] = self.left.get(image, 0) + ranks
        for image, ranks in other.lost.items():
            self.lost[image] = self.lost.get(image, 0) + ranks
        for image, moved_us in other.moved_us.items():
            self.moved_us[image] = max(self.moved_us.get(image, 0), moved_us)
        self.unloaded_blocks |= other.unloaded_blocks
        if self.copy_costs is None or other.copy_costs is None:
            self.copy_costs = self.copy_costs or other.copy_costs
        else:
            self.copy_costs = self.copy_costs.slowest(other.copy_costs)

    def __bool__(self) -> bool:
        return bool(self.staged or self.left or self.lost or self.moved_us or self.unloaded_blocks or self.copy_costs)
