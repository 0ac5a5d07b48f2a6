"""The workers' side of the swap: carries out a step's orders, and reports what has completed."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .orders import CopyCosts, Orders, Report
from .transfers import ImageCorruptedError, Moved, SwapTransfers

logger = logging.getLogger("vllm.switchyard")


class SwapWorker:
    def __init__(self, transfers: SwapTransfers, copy_costs: CopyCosts | None = None) -> None:
        """`copy_costs`: as measured on this rank."""
        self._transfers = transfers
        self._step = 0
        self._loaded_step = 0
        self._report = Report(copy_costs=copy_costs)

    @property
    def transfers(self) -> SwapTransfers:
        return self._transfers

    def before_forward(self, orders: Orders) -> None:
        """Before this step writes to any block. Model runners of both versions call it, one of them twice."""
        if orders.step == self._step:
            return
        self._step = orders.step
        self._collect()
        transfers = self._transfers
        if orders.reset:
            transfers.reset()
        for image in orders.drop:
            transfers.drop(str(image))
        for out in orders.out:
            self._swap_out(out.image, out.block_ids)
        for image in orders.unstage:
            transfers.unstage(str(image))
        for image in orders.prefetch:
            self._prefetch(image)

    def load(self, orders: Orders) -> None:
        """Before this step reads any block."""
        if orders.step == self._loaded_step:
            return
        self._loaded_step = orders.step
        for into in orders.into:
            try:
                self._transfers.swap_in(str(into.image), into.block_ids, into.first_row)
            except ImageCorruptedError:
                raise
            except Exception:
                logger.exception("switchyard: KV could not be restored, and will be computed again")
                self._report.unloaded_blocks.update(into.block_ids)

    def take_report(self) -> Report:
        self._collect()
        report, self._report = self._report, Report()
        return report

    def close(self) -> None:
        self._transfers.close()

    def _swap_out(self, image: int, block_ids: tuple[int, ...]) -> None:
        try:
            kept = self._transfers.swap_out(str(image), block_ids)
        except Exception:
            logger.exception("switchyard: KV could not be swapped out, and will be computed again")
            kept = False
        if not kept:
            self._report.lost[image] = 1

    def _prefetch(self, image: int) -> None:
        try:
            under_way = self._transfers.prefetch(str(image))
        except Exception:
            logger.exception("switchyard: KV could not be brought back, and will be computed again")
            self._report.lost[image] = 1
            return
        if not under_way:
            # No room to wait in: it comes in through the ring, and the step that loads it waits for the link.
            self._report.staged[image] = 1

    def _collect(self) -> None:
        completed = self._transfers.completed()
        for moved in completed.staged:
            self._report.staged[int(moved.image_id)] = 1
        for moved in completed.out:
            self._report.left[int(moved.image_id)] = 1
        self._add_times(completed.out)
        self._add_times(completed.loaded)

    def _add_times(self, transfers: Iterable[Moved]) -> None:
        times = self._report.moved_us
        for moved in transfers:
            image = int(moved.image_id)
            times[image] = times.get(image, 0) + round(moved.compute_s * 1e6)
