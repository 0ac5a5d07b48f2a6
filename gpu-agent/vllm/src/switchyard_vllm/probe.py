"""What of vLLM's private interface the plug-in uses, checked when it is loaded. vLLM changes it from month to month.

Signatures and fields are checked here, behaviour in behaviour_probe.py. Anything that differs is named in one sentence, and
vLLM does not start: a scheduler that half works would be worse.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from .behaviour_probe import behaviour_faults

logger = logging.getLogger("vllm.switchyard")

#: Versions with which the plug-in has been run.
VERSIONS_RUN = ("0.32.0",)
#: Versions on whose Python code all tests of the scheduler passed; no model was served with them.
VERSIONS_TESTED = ("0.33.0",)


class InterfaceMismatchError(RuntimeError):
    """This vLLM differs from what the plug-in was written for."""


#: The parameters that a method must have, in this order, after self; more with defaults may follow.
METHODS: Mapping[str, tuple[str, ...]] = {
    "schedule": (),
    "add_request": ("request",),
    "update_from_output": ("scheduler_output", "model_runner_output"),
    "_preempt_request": ("request", "timestamp"),
    "_free_request": ("request",),
    "reset_prefix_cache": (),
    "make_stats": (),
    "get_grammar_bitmask": ("scheduler_output",),
}
INSTANCE_FIELDS = (
    "adaptive_long_prefill_threshold",
    "block_size",
    "connector",
    "deferred_frees",
    "finished_recving_kv_req_ids",
    "get_request_counts",
    "grammar_compile_error_reqs",
    "kv_cache_config",
    "kv_cache_manager",
    "kv_holding_waiting",
    "max_model_len",
    "max_num_active_reqs",
    "max_num_running_reqs",
    "max_num_scheduled_tokens",
    "num_waiting_for_streaming_input",
    "pause_state",
    "policy",
    "prefill_capacity_bound",
    "prev_step_scheduled_req_ids",
    "requests",
    "running",
    "scheduler_config",
    "structured_output_manager",
    "vllm_config",
    "waiting",
)
REQUEST_FIELDS = (
    "_all_token_ids",
    "arrival_time",
    "block_hashes",
    "drop_stale_output",
    "is_prefill_chunk",
    "max_tokens",
    "num_computed_tokens",
    "num_output_placeholders",
    "num_prompt_tokens",
    "num_stale_output_tokens",
    "priority",
    "prompt_token_ids",
    "request_id",
    "resumable",
    "sampling_params",
    "session_id",
    "skip_reading_prefix_cache",
    "status",
    "structured_output_request",
)
REQUEST_PROPERTIES = ("num_output_tokens", "num_tokens", "num_tokens_with_spec", "update_block_hashes")
STATUSES = (
    "WAITING",
    "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
    "WAITING_FOR_REMOTE_KVS",
    "PREEMPTED",
    "RUNNING",
    "FINISHED_STOPPED",
    "FINISHED_LENGTH_CAPPED",
    "FINISHED_ABORTED",
)
#: What of the KV cache manager is used: for prefixes at hand, and when memory is short.
MANAGER_FIELDS = (
    "block_pool",
    "enable_caching",
    "enable_kv_cache_events",
    "get_blocks",
    "get_computed_blocks",
    "usage",
    "watermark_blocks",
)
BLOCK_FIELDS = ("block_hash", "is_null", "ref_cnt")


def method_faults(owner: type, methods: Mapping[str, tuple[str, ...]] = METHODS) -> list[str]:
    faults: list[str] = []
    for name, wanted in methods.items():
        method = getattr(owner, name, None)
        if method is None:
            faults.append(f"{owner.__name__}.{name} is gone")
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        names = tuple(parameter.name for parameter in parameters)
        required = [
            p.name for p in parameters[len(wanted) :] if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        if names[: len(wanted)] != wanted or required:
            faults.append(f"{owner.__name__}.{name} takes ({', '.join(names)})")
    return faults


def missing(owner: object, names: Iterable[str], title: str) -> list[str]:
    return [f"{title}.{name} is gone" for name in names if not hasattr(owner, name)]


def refuse(faults: list[str], version: str) -> None:
    if faults:
        raise InterfaceMismatchError(
            f"switchyard_vllm does not know this vLLM ({version}): {'; '.join(faults)}. "
            f"Install vLLM {' or '.join(VERSIONS_RUN)}, with which it has been run, or {' or '.join(VERSIONS_TESTED)}, "
            "on whose scheduler its tests passed. Or start this vLLM without --scheduler-cls: "
            "Switchyard then orders calls once, by the priority with which it sends them."
        )


def check_interface() -> None:
    """Before any engine: classes, signatures, fields."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.request_queue import PriorityRequestQueue
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import Request, RequestStatus

    faults = method_faults(Scheduler)
    if not issubclass(AsyncScheduler, Scheduler):
        faults.append("AsyncScheduler is no Scheduler")
    # Behaviour is tried on the synchronous one.
    own = [name for name in ("schedule", "_preempt_request") if name in vars(AsyncScheduler)]
    faults += [f"AsyncScheduler has a {name} of its own" for name in own]
    faults += missing(Request, REQUEST_PROPERTIES, "Request")
    faults += missing(RequestStatus, STATUSES, "RequestStatus")
    source = inspect.getsource(Request.__init__)
    faults += [f"Request.{name} is gone" for name in REQUEST_FIELDS if f"self.{name}" not in source]
    faults += missing(PriorityRequestQueue(), ("_heap",), "PriorityRequestQueue")
    if "priority" not in inspect.getsource(Request.__lt__) or "arrival_time" not in inspect.getsource(Request.__lt__):
        faults.append("requests are not ordered by priority and arrival time")
    refuse(faults, installed_version())


def check_instance(scheduler: Any) -> None:
    """When a scheduler has been made: what only exists then."""
    faults = missing(scheduler, INSTANCE_FIELDS, "Scheduler")
    if not faults:
        faults += missing(scheduler.kv_cache_manager, MANAGER_FIELDS, "KVCacheManager")
        faults += missing(scheduler.waiting, ("_heap",), "Scheduler.waiting")
        faults += missing(scheduler.kv_holding_waiting, ("_heap",), "Scheduler.kv_holding_waiting")
    if not faults:
        faults += missing(
            scheduler.kv_cache_manager.block_pool,
            ("evict_blocks", "free_blocks", "get_new_blocks", "get_num_free_blocks", "touch"),
            "BlockPool",
        )
        faults += missing(scheduler.kv_cache_manager.block_pool.blocks[0], BLOCK_FIELDS, "KVCacheBlock")
    refuse(faults, installed_version())


def check_behaviour(vllm_config: Any, version: str) -> None:
    """Once a process: what it does with waiting calls, tokens and memory.

    Where it cannot be tried at all, a version on which all tests passed is trusted, and another is refused.
    """
    try:
        faults = behaviour_faults(vllm_config)
    except Exception as error:
        cause = f"its scheduler could not be tried ({type(error).__name__}: {error})"
        if version.split("+")[0] in (*VERSIONS_RUN, *VERSIONS_TESTED):
            logger.warning("switchyard: %s; going on, since this is vLLM %s", cause, version)
            return
        faults = [cause]
    refuse(faults, version)


def installed_version() -> str:
    from vllm import __version__

    return str(__version__)
