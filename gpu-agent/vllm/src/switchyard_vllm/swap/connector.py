"""The class that vLLM is started with to swap: `--kv-transfer-config` with `kv_connector` BulkSwapConnector and
`kv_connector_module_path` switchyard_vllm.swap.connector.

vLLM makes one beside its scheduler and one in each worker. The first is told of preemptions by Switchyard's scheduler
(mixin.py): vLLM itself tells no connector. Both only pass on, to SwapScheduler and SwapWorker. An exception in the former
ends the swap and nothing else: vLLM computes preempted calls again, as it does without.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)

from ..pinned_blocks import PinnedBlocks
from .copy_costs import measure_copies
from .image import ImageOwner
from .orders import CopyCosts, Orders, Report
from .settings import SwapSettings, swap_transfers
from .slab_pool import SLAB_BLOCKS
from .swap_costs import SwapCosts
from .swap_options import GIB, block_bytes, read_swap_options, refuse_unsupported
from .swap_rules import SwapRules
from .swap_scheduler import SwapScheduler
from .swap_worker import SwapWorker
from .transfers import SwapTransfers

logger = logging.getLogger("vllm.switchyard")

T = TypeVar("T")


class SwapMetadata(KVConnectorMetadata):
    def __init__(self, orders: Orders) -> None:
        self.orders = orders


class SwapWorkerMetadata(KVConnectorWorkerMetadata):
    def __init__(self, report: Report) -> None:
        self.report = report

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        assert isinstance(other, SwapWorkerMetadata)
        self.report.add(other.report)
        return self


class BulkSwapConnector(KVConnectorBase_V1, SupportsHMA):
    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        refuse_unsupported(vllm_config, kv_cache_config)
        self.options = read_swap_options(vllm_config.kv_transfer_config.kv_connector_extra_config)
        self._block_bytes = block_bytes(kv_cache_config)
        #: Of each worker, in whole slabs.
        self.arena_blocks = int(self.options.arena_gib * GIB) // self._block_bytes // SLAB_BLOCKS * SLAB_BLOCKS
        self._block_tokens = int(vllm_config.cache_config.block_size)
        self.costs = SwapCosts(self.options, self._block_bytes / self._block_tokens)
        #: Beside the scheduler, from `bind_kv_cache_manager` on. None once it has failed.
        self.swap: SwapScheduler | None = None
        #: In a worker, from `register_kv_caches` on.
        self.worker: SwapWorker | None = None
        #: Beside the scheduler, where the prefix cache is off: what is kept for programs whose tools run.
        self.pinned: PinnedBlocks | None = None
        #: It has failed, and does nothing any more. What it had declined until then.
        self.failed = False
        self._declined = 0
        self._reset_workers = False
        self._step = 0
        self._unloaded: set[int] = set()

    @property
    def requires_kv_delivery(self) -> bool:
        # Images go to no other engine. With True vLLM would throw away tokens of preempted calls that are under way.
        return False

    # Beside the scheduler.

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        super().bind_kv_cache_manager(kv_cache_manager)
        self.swap = SwapScheduler(self._rules(), kv_cache_manager)

    def preempted(self, request: Any) -> None:
        """Of Switchyard's scheduler: a call is about to lose its blocks."""
        self._guarded(lambda swap: swap.preempted(request), None)

    def ready(self, request: Any) -> bool:
        """Whether a call that waits would be admitted if it had a seat; if not, what it needs is on its way."""
        return self._pinned_tokens(request) > 0 or self._guarded(lambda swap: swap.ready(request), True)

    def restorable_tokens(self, request: Any, cached_tokens: int) -> int:
        """Tokens of a call that waits that would not be computed: the cached ones, or up to the end of its image."""
        pinned = self._pinned_tokens(request) if cached_tokens == 0 else 0
        return pinned or self._guarded(lambda swap: swap.restorable_tokens(request, cached_tokens), cached_tokens)

    def staged(self, request: Any) -> bool:
        """Whether the image of a call that waits is on the device, or its KV is pinned there."""
        return self._pinned_tokens(request) > 0 or self._guarded(lambda swap: swap.staged(request), False)

    def leave_context(
        self,
        name: str,
        first_block: int,
        block_ids: tuple[int, ...],
        tokens: int,
        owner: ImageOwner,
        left_us: Callable[[], float],
    ) -> None:
        """Of Switchyard's scheduler: a program whose tool runs left these blocks, which are free from now on."""
        self._guarded(lambda swap: swap.leave_context(name, first_block, block_ids, tokens, owner, left_us), None)

    def prefetch_context(self, name: str) -> bool:
        return self._guarded(lambda swap: swap.prefetch_context(name), False)

    def context_returns(self, name: str, request_id: str, tokens: int) -> None:
        self._guarded(lambda swap: swap.context_returns(name, request_id, tokens), None)

    def forget_context(self, name: str) -> None:
        self._guarded(lambda swap: swap.forget_context(name), None)

    def context_swap_us(self) -> int:
        return 0 if self.swap is None else self.swap.context_us

    def contexts_displaced(self) -> int:
        return 0 if self.swap is None else self.swap.contexts_displaced

    @property
    def declined(self) -> int:
        """Contexts that got no image since the start, because moving them out did not pay or there was no room."""
        return self._declined if self.swap is None else self.swap.declined

    def planned(self) -> set[int]:
        """Of Switchyard's scheduler, when vLLM has planned a step: blocks that it counts as restored and that will not be."""
        unloaded, self._unloaded = self._unloaded, set()
        return unloaded

    def computed(self, model_output: Any) -> set[int]:
        """Of Switchyard's scheduler, when a step has ended: blocks that were to be restored in it and were not."""
        output = model_output.kv_connector_output
        metadata = None if output is None else output.kv_connector_worker_meta
        for one in (metadata, *getattr(metadata, "metadata", ())):
            if isinstance(one, SwapWorkerMetadata):
                if one.report.copy_costs is not None:
                    self.costs.copies_take(one.report.copy_costs)
                return one.report.unloaded_blocks
        return set()

    def void(self) -> None:
        """Of Switchyard's scheduler: the model's weights may be others, or what was restored was wrong."""
        self._guarded(lambda swap: swap.void(), None)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        pinned = self.pinned.offer(request) if self.pinned is not None and num_computed_tokens == 0 else 0
        if pinned > 0:
            return pinned, False
        nothing: int | None = 0
        return self._guarded(lambda swap: swap.matched(request, num_computed_tokens), nothing), False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        (table,) = blocks.get_block_ids()
        adopted = None if self.pinned is None else self.pinned.adopted(request, table)
        if adopted is not None:
            self._guarded(lambda swap: swap.admitted(request, table, 0), None)
            if not adopted:
                self._unloaded.update(table[: num_external_tokens // self._block_tokens])
            return
        self._guarded(lambda swap: swap.admitted(request, table, num_external_tokens), None)
        if self.swap is None and num_external_tokens > 0:
            # vLLM counts them as restored.
            self._unloaded.update(block.block_id for block in blocks.blocks[0] if block.ref_cnt == 1)

    def build_connector_meta(self, scheduler_output: Any) -> SwapMetadata:
        written = {copy.dst_block_id for copy in scheduler_output.kv_cache_block_copies or ()}
        written.update(scheduler_output.new_block_ids_to_zero or ())
        orders = self._guarded(lambda swap: swap.orders(written.__contains__), None)
        if orders is None:
            orders = self._last_orders()
        self._step = orders.step
        return SwapMetadata(orders)

    def update_connector_output(self, connector_output: Any) -> None:
        metadata = connector_output.kv_connector_worker_meta
        if isinstance(metadata, SwapWorkerMetadata):
            self._guarded(lambda swap: swap.reported(metadata.report), None)

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, [])

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        self._guarded(lambda swap: swap.ended(request.request_id), None)
        return False, None

    def reset_cache(self) -> bool:
        self.void()
        return True

    # In a worker.

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        options = self.options
        settings = SwapSettings(
            arena_blocks=self.arena_blocks,
            ring_bytes=int(options.ring_gib * GIB),
            prefetch_bytes=int(options.prefetch_gib * GIB),
            backend=options.backend,
            checksums=options.checksums,
        )
        transfers = swap_transfers(kv_caches, self._kv_cache_config.num_blocks, settings)
        self.worker = SwapWorker(transfers, self._measured(transfers))
        logger.info("switchyard: KV of preempted calls is swapped to %.1f GiB of host memory", options.arena_gib)

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        assert self.worker is not None and isinstance(kv_connector_metadata, SwapMetadata)
        self.worker.before_forward(kv_connector_metadata.orders)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        metadata = self._get_connector_metadata()
        assert self.worker is not None and isinstance(metadata, SwapMetadata)
        self.worker.load(metadata.orders)

    def wait_for_layer_load(self, layer_name: str) -> None:
        return None

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        return None

    def wait_for_save(self) -> None:
        return None

    def build_connector_worker_meta(self) -> SwapWorkerMetadata | None:
        report = None if self.worker is None else self.worker.take_report()
        return SwapWorkerMetadata(report) if report else None

    # Either.

    def shutdown(self) -> None:
        if self.swap is not None:
            self.swap.stop()
            self.swap = None
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def _pinned_tokens(self, request: Any) -> int:
        return 0 if self.pinned is None else self.pinned.own_blocks(request) * self._block_tokens

    def _measured(self, transfers: SwapTransfers) -> CopyCosts | None:
        try:
            costs = measure_copies(transfers, self._block_tokens)
            logger.info("switchyard: what moving KV takes here: %s", costs)
            return costs
        except Exception:
            logger.exception("switchyard: copies of KV could not be measured; usual costs decide about the swap")
            transfers.reset()
            return None

    def _rules(self) -> SwapRules:
        return SwapRules(
            costs=self.costs.current,
            arena_slabs=self.arena_blocks // SLAB_BLOCKS,
            ring_blocks=max(1, int(self.options.ring_gib * GIB) // self._block_bytes),
            prefetch_blocks=max(1, int(self.options.prefetch_gib * GIB) // self._block_bytes),
            ranks=self._vllm_config.parallel_config.world_size,
            block_tokens=self._block_tokens,
            always=self.options.mode == "always",
        )

    def _guarded(self, work: Callable[[SwapScheduler], T], without: T) -> T:
        swap = self.swap
        if swap is None:
            return without
        try:
            return work(swap)
        except Exception:
            logger.exception("switchyard: the KV swap failed and gives up; preempted calls are computed again")
            self.swap = None
            self._declined = swap.declined
            self.failed = self._reset_workers = True
            try:
                # What was to be restored in this step is not.
                self._unloaded.update(swap.stop())
            except Exception:
                logger.exception("switchyard: what the KV swap held could not be given back")
            return without

    def _last_orders(self) -> Orders:
        """Of a swap that has failed: the workers forget all images, once."""
        reset, self._reset_workers = self._reset_workers, False
        return Orders(self._step + 1, reset=reset)


def swap_connector(connector: Any) -> BulkSwapConnector | None:
    """vLLM's connector if it is ours, or the one of ours among those of a MultiConnector."""
    for one in (connector, *getattr(connector, "sub_connectors", ())):
        if isinstance(one, BulkSwapConnector):
            return one
    return None
