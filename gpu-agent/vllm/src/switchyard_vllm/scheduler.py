"""The class that vLLM is started with: `--scheduler-cls switchyard_vllm.ProgramAwareScheduler`.

It stands over the base that vLLM would have chosen itself: the asynchronous scheduler where async scheduling is on, else the
synchronous one. vLLM decides that before it makes the scheduler (on CPU it is always off), so the choice is made then.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from .mixin import ProgramAwareMixin
from .probe import check_interface

check_interface()


class ProgramAwareScheduler(ProgramAwareMixin, Scheduler):
    def __new__(cls, vllm_config: Any, *_args: Any, **_kwargs: Any) -> ProgramAwareScheduler:
        chosen: type[ProgramAwareScheduler] = cls
        if cls is ProgramAwareScheduler and vllm_config.scheduler_config.async_scheduling:
            chosen = ProgramAwareAsyncScheduler
        return object.__new__(chosen)


class ProgramAwareAsyncScheduler(ProgramAwareScheduler, AsyncScheduler):
    pass
