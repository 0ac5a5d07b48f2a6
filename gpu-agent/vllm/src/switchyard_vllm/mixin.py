"""The hooks into vLLM's scheduler. Each does its work beside vLLM's own method and never instead of it.

An exception in ours never takes the engine down: it is logged once and counted, and from then on vLLM schedules by itself in
its own order. It is not tried again: what the core knows of calls may no longer be true.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .driver import Driver
from .options import OptionsError, read_options
from .probe import check_instance, installed_version
from .records import CallRecord, RecordBuffer
from .side_channel import SideChannel

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
else:
    VllmScheduler = object

logger = logging.getLogger("vllm.switchyard")

T = TypeVar("T")
#: Namespaces what we put into a body's kv_transfer_params, which routers between prefill and decode read too.
REPORT_KEY = "switchyard"
PLUGIN_VERSION = "0.1.0"


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


class ProgramAwareMixin(VllmScheduler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.policy.name != "PRIORITY":
            raise OptionsError(
                "switchyard: start vLLM with --scheduling-policy priority; under fcfs it ignores any order"
            )
        check_instance(self)
        options = read_options(self.vllm_config.additional_config)
        #: Exceptions in the plug-in so far: 0, or vLLM has been on its own since.
        self.switchyard_failures = 0
        self.switchyard_sink = RecordBuffer()
        #: None once the plug-in has given up.
        self.switchyard: Driver | None = Driver(self, options, monotonic_us, self.switchyard_sink)
        self.switchyard_channel: SideChannel | None = None
        if options.socket is not None:
            about = {"plugin": PLUGIN_VERSION, "vllm": installed_version(), "seats": self.max_num_active_reqs}
            self.switchyard_channel = SideChannel(options.socket, self.switchyard_sink, self.switchyard.mailbox, about)
            self.switchyard.report(monotonic_us())
            self.switchyard_channel.start()
        logger.info(
            "switchyard: %s over %d seats, by %s service", options.policy, self.max_num_active_reqs, options.ordering
        )

    def add_request(self, request: Any) -> None:
        # A known id is the next input of a streaming session.
        if request.request_id not in self.requests:
            self._guarded(lambda driver: driver.added(request))
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        started_us = self._guarded(lambda driver: driver.before_schedule())
        output = super().schedule(*args, **kwargs)
        if started_us is not None:
            self._guarded(lambda driver: driver.after_schedule(output, started_us))
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        charged = self._guarded(lambda driver: driver.before_update(scheduler_output, model_runner_output))
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if charged is not None:
            self._guarded(lambda driver: driver.after_update(charged))
        return outputs

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self._guarded(lambda driver: driver.preempted(request))
        super()._preempt_request(request, *args, **kwargs)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        record = self._guarded(lambda driver: driver.freed(request))
        result = super()._free_request(request, *args, **kwargs)
        return result if record is None else self._guarded(lambda driver: _report(driver, record, result)) or result

    def shutdown(self) -> None:
        if self.switchyard_channel is not None:
            self.switchyard_channel.stop()
        super().shutdown()

    def _guarded(self, work: Callable[[Driver], T]) -> T | None:
        """Runs our part of a hook. None: it failed, or the plug-in has given up."""
        driver = self.switchyard
        if driver is None:
            return None
        try:
            return work(driver)
        except Exception:
            self.switchyard_failures += 1
            self.switchyard = None
            logger.exception("switchyard: the plug-in failed and gives up; vLLM goes on in its own order")
            self._restore(driver)
            return None

    def _restore(self, driver: Driver) -> None:
        try:
            driver.restore_stock_order()
            driver.mailbox.set_status({**driver.mailbox.status(), "failures": self.switchyard_failures})
        except Exception:
            # The keys are whatever they were: an order still, though not vLLM's own.
            logger.exception("switchyard: vLLM's own order could not be restored")


def _report(driver: Driver, record: CallRecord, result: Any) -> Any:
    if not driver.options.report_in_body:
        return result
    kv_transfer_params, *others = result
    return ({**(kv_transfer_params or {}), REPORT_KEY: record.as_dict()}, *others)
