"""The hooks into vLLM's scheduler. Each does its work beside vLLM's own method and never instead of it.

An exception in ours never takes the engine down: it is logged and counted, vLLM schedules by itself in its own order from
then on, and calls go on being measured (bystander.py). If measuring fails too, the plug-in is out, and says so.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .bystander import Bystander
from .call_meter import CallMeter
from .driver import Driver
from .engine_counts import EngineCounts
from .mailbox import Mailbox
from .options import OptionsError, operators_options
from .prefill_limit import PrefillLimit
from .probe import check_behaviour, check_instance, installed_version
from .records import CallRecord, RecordBuffer
from .resumption import Resumption
from .seat_limit import SeatLimit
from .side_channel import SideChannel

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

    from .swap.connector import BulkSwapConnector
else:
    VllmScheduler = object

logger = logging.getLogger("vllm.switchyard")

T = TypeVar("T")
#: Namespaces what we put into a body's kv_transfer_params, which routers between prefill and decode read too.
REPORT_KEY = "switchyard"
PLUGIN_VERSION = "0.1.0"
#: Characters of an exception that the agent is told.
REASON_CHARS_MAX = 200


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


class ProgramAwareMixin(VllmScheduler):
    _behaviour_checked = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.policy.name != "PRIORITY":
            raise OptionsError(
                "switchyard: start vLLM with --scheduling-policy priority; under fcfs it ignores any order"
            )
        check_instance(self)
        if not ProgramAwareMixin._behaviour_checked:
            check_behaviour(self.vllm_config, installed_version())
            ProgramAwareMixin._behaviour_checked = True
        options = operators_options(
            self.vllm_config.additional_config,
            os.environ,
            on_cpu=self.vllm_config.device_config.device_type == "cpu",
        )
        self.switchyard_options = options
        self.switchyard_sink = RecordBuffer()
        self.switchyard_meter = CallMeter(self, monotonic_us, self.switchyard_sink, Mailbox())
        self._switchyard_prefill_limit = PrefillLimit(self)
        self._switchyard_seat_limit = SeatLimit(self)
        #: None: bodies are clients' own, and name no tokens.
        self.switchyard_resumption: Resumption | None = None
        if options.identity == "agent":
            self.switchyard_resumption = Resumption(self, self.vllm_config.model_config.get_vocab_size())
        #: None: this vLLM does not swap.
        self.switchyard_swap = _swap_of(self.connector)
        if self.switchyard_swap is not None and self.switchyard_swap.swap is not None:
            self.switchyard_swap.swap.ledger = self.switchyard_meter
            self.switchyard_meter.swap = self.switchyard_swap
        #: The bystander once scheduling has failed, None once measuring has too.
        self.switchyard: Driver | Bystander | None = Driver(
            self.switchyard_meter,
            options,
            self._switchyard_prefill_limit,
            self._switchyard_seat_limit,
            self.switchyard_swap,
        )
        self._switchyard_counts = EngineCounts(self.switchyard_meter)
        self._switchyard_tells_positions = True
        self.switchyard.report(monotonic_us())
        self.switchyard_channel: SideChannel | None = None
        if options.socket is not None:
            self.switchyard_channel = SideChannel(
                options.socket, self.switchyard_sink, self.switchyard_meter.mailbox, self._about()
            )
            self.switchyard_channel.start()
        logger.info(
            "switchyard: %s over %d seats, by %s service", options.policy, self.max_num_active_reqs, options.ordering
        )

    @property
    def switchyard_failures(self) -> int:
        """Exceptions in the plug-in so far: 0, or vLLM has scheduled by itself since."""
        return self.switchyard_meter.failures

    def _about(self) -> dict[str, Any]:
        """What does not change while the engine runs."""
        resumption = self.switchyard_resumption
        return {
            "plugin": PLUGIN_VERSION,
            "vllm": installed_version(),
            "seats": self.switchyard_meter.seats,
            "kv_capacity_tokens": self.switchyard_meter.kv_capacity_tokens,
            "block_tokens": self.block_size,
            "context_tokens_max": self.max_model_len,
            # Without it this engine goes on with no answer that another one began.
            **({} if resumption is None else {"vocabulary_tokens": resumption.vocabulary_tokens}),
        }

    def add_request(self, request: Any) -> None:
        # A known id is the next input of a streaming session.
        if request.request_id not in self.requests:
            if self.switchyard_resumption is not None:
                self.switchyard_resumption.added(request)
            self._timed(lambda ours: ours.added(request))
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        throttled = bool(args[0] if args else kwargs.get("throttle_prefills", False))
        started_us = self._timed(lambda ours: ours.before_schedule(throttled))
        self._tell_positions()
        try:
            output = super().schedule(*args, **kwargs)
        finally:
            self._switchyard_prefill_limit.restore()
            self._switchyard_seat_limit.restore()
        if started_us is not None:
            self._timed(lambda ours: ours.after_schedule(output, started_us))
        if self.switchyard_swap is not None:
            self._compute_again(self.switchyard_swap.planned())
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        if self.switchyard_swap is not None:
            self._compute_again(self.switchyard_swap.computed(model_runner_output))
        charged = self._timed(lambda ours: ours.before_update(scheduler_output, model_runner_output))
        self._tell_prefill_speed()
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if charged is not None:
            self._timed(lambda ours: ours.after_update(charged))
        if self.switchyard_resumption is not None:
            self.switchyard_resumption.tell(output for told in outputs.values() for output in told.outputs)
        return outputs

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        if self.switchyard_resumption is not None:
            self.switchyard_resumption.before_bitmask()
        return super().get_grammar_bitmask(scheduler_output)

    def _tell_positions(self) -> None:
        if not self._switchyard_tells_positions or not isinstance(self.switchyard, Driver):
            return
        try:
            self.switchyard.tell_positions()
        except Exception:
            # What people are not shown is no reason to stop scheduling.
            self.switchyard_meter.failures += 1
            self._switchyard_tells_positions = False
            logger.exception("switchyard: where calls are in the order can no longer be told")

    def _tell_prefill_speed(self) -> None:
        if self.switchyard_swap is None or not isinstance(self.switchyard, Driver):
            return
        us_per_token = self.switchyard.hold.prefill_speed.us_per_token
        if us_per_token is not None:
            self.switchyard_swap.costs.prefill_takes(us_per_token)

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self._guarded(lambda ours: ours.preempted(request))
        if self.switchyard_swap is not None:
            self.switchyard_swap.preempted(request)
        super()._preempt_request(request, *args, **kwargs)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        record = self._timed(lambda ours: ours.freed(request))
        result = super()._free_request(request, *args, **kwargs)
        return result if record is None else self._with_report(record, result)

    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> Any:
        # vLLM resets nothing while a block is referred to.
        self._guarded(lambda ours: ours.forget_contexts())
        try:
            return super().reset_prefix_cache(*args, **kwargs)
        finally:
            if self.switchyard_swap is not None:
                self.switchyard_swap.void()

    def make_stats(self, *args: Any, **kwargs: Any) -> Any:
        stats = super().make_stats(*args, **kwargs)
        try:
            self._switchyard_counts.put_into(stats)
        except Exception:
            # Figures that are not shown are no reason to stop scheduling.
            self.switchyard_meter.failures += 1
            self._switchyard_counts.stop()
            logger.exception("switchyard: the plug-in's metrics failed and are no longer sent")
        return stats

    def shutdown(self) -> None:
        if self.switchyard_channel is not None:
            self.switchyard_channel.stop()
        super().shutdown()

    def _compute_again(self, unloaded_blocks: set[int]) -> None:
        """Calls that have blocks whose KV was to be restored and was not lose all of it, and what steps under way give them.

        vLLM's own way (`invalid_block_ids`) does not know of steps under way. A call that was preempted since may have left
        such blocks, or an image of them, so nothing that was saved is used any more.
        """
        swap = self.switchyard_swap
        if not unloaded_blocks or swap is None:
            return
        for request in list(self.running):
            (table,) = self.kv_cache_manager.get_block_ids(request.request_id)
            if not unloaded_blocks.isdisjoint(table):
                self.running.remove(request)
                self._preempt_request(request, time.monotonic(), drop_stale_output=True)
                self.prev_step_scheduled_req_ids.discard(request.request_id)
        for request in self.requests.values():
            if request.num_stale_output_tokens > 0:
                request.drop_stale_output = True
        self.kv_cache_manager.evict_blocks(unloaded_blocks)
        swap.void()

    def _timed(self, work: Callable[[Driver | Bystander], T]) -> T | None:
        """Our part of a hook, counted as time that the plug-in takes. None: it failed, or the plug-in is out."""
        begun_ns = time.perf_counter_ns()
        result = self._guarded(work)
        self.switchyard_meter.decision_ns += time.perf_counter_ns() - begun_ns
        return result

    def _guarded(self, work: Callable[[Driver | Bystander], T]) -> T | None:
        """Our part of a hook. When scheduling fails in it, the bystander does what is left to do of it."""
        ours = self.switchyard
        if ours is None:
            return None
        try:
            return work(ours)
        except Exception as error:
            self._failed(ours, f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX])
            return self._guarded(work)

    def _failed(self, ours: Driver | Bystander, reason: str) -> None:
        meter = self.switchyard_meter
        meter.failures += 1
        if isinstance(ours, Driver):
            logger.exception("switchyard: the plug-in failed and gives up; vLLM goes on in its own order")
            self._restore(ours)
            self.switchyard = Bystander(meter, self.switchyard_options.identity, reason)
        else:
            logger.exception("switchyard: calls can no longer be measured, and leave no records")
            self.switchyard = None
        told = {"failures": meter.failures, "failed": True, "failed_reason": reason}
        meter.mailbox.set_status({**meter.mailbox.status(), **told, "measures": self.switchyard is not None})

    def _restore(self, driver: Driver) -> None:
        try:
            driver.restore_stock_order()
        except Exception:
            # Priorities stay as they were: an order still, though not vLLM's own.
            logger.exception("switchyard: vLLM's own order could not be restored")

    def _with_report(self, record: CallRecord, result: Any) -> Any:
        if not self.switchyard_options.report_in_body:
            return result
        kv_transfer_params, *others = result
        return ({**(kv_transfer_params or {}), REPORT_KEY: record.as_dict()}, *others)


def _swap_of(connector: Any) -> BulkSwapConnector | None:
    if connector is None:
        return None
    # Loads torch.
    from .swap.connector import swap_connector

    return swap_connector(connector)
