"""vLLM's own scheduler class without a model: fabricated configs, fake model outputs, a clock that the test turns.

A model folder with only a config.json is enough for vLLM's configs. A step's outcome is one token for each call that has
computed all of its tokens. `depth` 2 schedules a step before the outcome of the one before is processed, as vLLM's engine
core does under async scheduling.
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from switchyard_vllm.order.ordered_calls import level_of
from switchyard_vllm.priorities import WAITING_MAX

BLOCK_TOKENS = 32
MODEL_TOKENS_MAX = 2048
TOKEN = 7
END_TOKEN = 2
#: A step lasts so long, and so much longer for each call and each prompt token in it.
STEP_US, CALL_US, PROMPT_TOKEN_US = 14_500, 3_000, 700

MODEL_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "vocab_size": 1000,
    "max_position_embeddings": MODEL_TOKENS_MAX,
    "torch_dtype": "bfloat16",
}


@cache
def model_folder() -> str:
    folder = mkdtemp(prefix="switchyard-vllm-model-")
    (Path(folder) / "config.json").write_text(json.dumps(MODEL_CONFIG), encoding="utf-8")
    return folder


def vllm_config(
    *,
    seats: int,
    blocks: int,
    block_tokens: int,
    step_tokens: int,
    chunk_tokens: int,
    prefix_cache: bool,
    policy: str,
    is_async: bool,
    additional: dict[str, Any],
    kv_transfer: dict[str, Any] | None,
    device_type: str = "cuda",
) -> Any:
    config = VllmConfig(
        model_config=ModelConfig(
            model=model_folder(), dtype="bfloat16", max_model_len=MODEL_TOKENS_MAX, skip_tokenizer_init=True
        ),
        scheduler_config=SchedulerConfig(
            max_num_seqs=seats,
            max_num_batched_tokens=step_tokens,
            long_prefill_token_threshold=chunk_tokens,
            max_model_len=MODEL_TOKENS_MAX,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
            policy=policy,
            async_scheduling=False,
        ),
        cache_config=CacheConfig(block_size=block_tokens, enable_prefix_caching=prefix_cache),
        device_config=DeviceConfig("cpu"),
        parallel_config=ParallelConfig(),
        additional_config=additional,
        kv_transfer_config=None if kv_transfer is None else KVTransferConfig(**kv_transfer),
    )
    # The platform switches async scheduling off on CPU; the scheduler itself runs on any.
    config.scheduler_config.async_scheduling = is_async
    config.cache_config.num_gpu_blocks = blocks
    # Policies take prompts for what they cost there.
    config.device_config.device_type = device_type
    return config


class Clock:
    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


Arrival = tuple[int, str, dict[str, Any]]


@dataclass
class Ended:
    at_us: int
    reason: str
    params: dict[str, Any] | None


@dataclass
class Play:
    """What was seen of a run: figures that must not depend on who schedules, and those that must."""

    ended: dict[str, Ended] = field(default_factory=dict)
    first_token_us: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    steps: list[dict[str, int]] = field(default_factory=list)
    step_ends_us: list[int] = field(default_factory=list)


class Engine:
    """Steps one scheduler as vLLM's engine core does."""

    def __init__(
        self,
        cls: type[Any],
        *,
        seats: int = 4,
        blocks: int = 400,
        block_tokens: int = BLOCK_TOKENS,
        step_tokens: int = MODEL_TOKENS_MAX,
        chunk_tokens: int = 0,
        prefix_cache: bool = True,
        depth: int = 1,
        policy: str = "priority",
        switchyard: dict[str, Any] | None = None,
        kv_transfer: dict[str, Any] | None = None,
        ranks: int = 1,
        layers: int = 1,
        device_type: str = "cuda",
    ) -> None:
        init_none_hash(sha256)
        self.depth = depth
        self.block_tokens = block_tokens
        self.chunk_tokens = chunk_tokens
        self.clock = Clock()
        config = vllm_config(
            seats=seats,
            blocks=blocks,
            block_tokens=block_tokens,
            step_tokens=step_tokens,
            chunk_tokens=chunk_tokens,
            prefix_cache=prefix_cache,
            policy=policy,
            is_async=depth > 1,
            additional={} if switchyard is None else {"switchyard": switchyard},
            kv_transfer=kv_transfer,
            device_type=device_type,
        )
        config.parallel_config.world_size = ranks
        self.vllm_config = config
        spec = FullAttentionSpec(block_size=block_tokens, num_kv_heads=1, head_size=1, dtype=torch.float32)
        self.kv_cache_config = KVCacheConfig(
            num_blocks=blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec([f"layer.{layer}" for layer in range(layers)], spec)],
        )
        self.scheduler: Any = cls(
            vllm_config=config,
            kv_cache_config=self.kv_cache_config,
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_tokens,
            hash_block_size=block_tokens,
            include_finished_set=False,
            log_stats=True,
        )
        self.is_ours = hasattr(self.scheduler, "switchyard")
        if self.is_ours:
            meter = self.scheduler.switchyard_meter
            meter.clock_us = self.clock
            # The first status was left on another clock.
            meter._status_due_us = 0
        self.play = Play()
        self.pending: deque[tuple[Any, ModelRunnerOutput, int]] = deque()
        self.model_free_us = 0

    def request(
        self,
        name: str,
        *,
        prompt: int | list[int] = 40,
        output: int = 8,
        session: str | None = None,
        salt: str | None = None,
        xargs: dict[str, Any] | None = None,
        grammar: object | None = None,
    ) -> Request:
        """`grammar`: what compiles the call's grammar, or has compiled it. None: the call asks for no structure."""
        tokens = [3 + index % 900 for index in range(prompt)] if isinstance(prompt, int) else prompt
        structure = None if grammar is None else StructuredOutputsParams(json={"type": "object"})
        sampling = SamplingParams(max_tokens=output, temperature=0, extra_args=xargs, structured_outputs=structure)
        sampling.update_from_generation_config({}, END_TOKEN)
        request = Request(
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=sampling,
            pooling_params=None,
            arrival_time=self.clock.now_us / 1e6,
            cache_salt=salt,
            session_id=session,
            block_hasher=get_request_block_hasher(self.block_tokens, sha256),
        )
        if grammar is not None:
            request.structured_output_request.grammar = grammar
        return request

    def add(self, name: str, **given: Any) -> Request:
        request = self.request(name, **given)
        self.scheduler.add_request(request)
        return request

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def schedule(self, *, throttled: bool = False) -> Any:
        """One step is scheduled and its outcome put on its way. Under `depth` 2 the outcome comes after the next step."""
        output = self.scheduler.schedule(throttled)
        if self.is_ours:
            self.check()
        given = self.compute(output)
        sampled: list[list[int]] = []
        for request_id in output.num_scheduled_tokens:
            request = self.scheduler.requests[request_id]
            whole = request.num_computed_tokens >= request.num_tokens + max(0, request.num_output_placeholders - 1)
            sampled.append([given.get(request_id, TOKEN)] if whole else [])
        ids = list(output.num_scheduled_tokens)
        outcome = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
            kv_connector_output=self.connector_output(),
        )
        tokens = dict(output.num_scheduled_tokens)
        self.play.steps.append(tokens)
        prompt_tokens = sum(count for count in tokens.values() if count > 1)
        duration_us = STEP_US + CALL_US * len(tokens) + PROMPT_TOKEN_US * prompt_tokens if tokens else 0
        self.model_free_us = max(self.model_free_us, self.clock.now_us) + duration_us
        self.pending.append((output, outcome, self.model_free_us))
        return output

    def compute(self, output: Any) -> dict[str, int]:
        """What a model would do with the step: the token that each call gets, where it is another than TOKEN."""
        return {}

    def connector_output(self) -> Any:
        """What the workers' connectors say after the step."""
        return None

    def check(self) -> None:
        """What holds after every step of ours."""
        scheduler = self.scheduler
        assert scheduler.switchyard_failures == 0
        driver = scheduler.switchyard
        assert len(scheduler.running) <= driver.order.config.seats
        assert scheduler.max_num_active_reqs == driver.order.config.seats
        assert scheduler.scheduler_config.long_prefill_token_threshold == self.chunk_tokens
        assert driver.calls.keys() == {
            name for name, request in scheduler.requests.items() if not request.is_finished()
        }
        self.check_order(driver)
        self.check_status(driver)

    def check_order(self, driver: Any) -> None:
        """vLLM sees our order: of calls that run, and of those that wait as far as it can get in a step."""
        scheduler = self.scheduler
        waiting = list(scheduler.waiting)
        assert waiting == sorted(waiting), "vLLM's heap is in order"
        states = [open_call.state for open_call in driver.calls.values()]
        seated = sorted((state for state in states if state.seated), key=lambda state: state.seat_index)
        ordered = [*seated, *driver.order.first_waiting(len(states))]
        by_vllm = sorted(driver.calls[state.call.lease].request for state in ordered)
        assert len(ordered) == len(states) == len({request.priority for request in by_vllm})
        front = len(ordered) if driver.order.tenants == 1 else len(seated) + WAITING_MAX
        assert [request.request_id for request in by_vllm][:front] == [state.call.lease for state in ordered][:front]

    def check_status(self, driver: Any) -> None:
        """What is counted without a look at every call, with one."""
        requests = [open_call.request for open_call in driver.calls.values()]
        waiting = [request for request in requests if request.status != RequestStatus.RUNNING]
        status = driver.meter.status()
        assert status["waiting"] == len(waiting)
        assert status["running"] == len(requests) - len(waiting)
        queued = (max(0, request.num_prompt_tokens - request.num_computed_tokens) for request in requests)
        assert status["queued_tokens"] == sum(queued)
        levels = Counter(level_of(driver.calls[request.request_id].state) for request in waiting)
        assert driver.counts()["waiting_by_level"] == {str(level): levels[level] for level in sorted(levels)}

    def update(self) -> None:
        output, outcome, end_us = self.pending.popleft()
        self.clock.now_us = max(self.clock.now_us, end_us)
        self.play.step_ends_us.append(self.clock.now_us)
        for outputs in self.scheduler.update_from_output(output, outcome).values():
            for one in outputs.outputs:
                tokens = self.play.tokens.setdefault(one.request_id, [])
                tokens.extend(one.new_token_ids)
                if one.new_token_ids:
                    self.play.first_token_us.setdefault(one.request_id, self.clock.now_us)
                if one.finish_reason is not None:
                    reason = str(one.finish_reason)
                    self.play.ended[one.request_id] = Ended(self.clock.now_us, reason, one.kv_transfer_params)

    def step(self) -> None:
        self.schedule()
        while len(self.pending) >= self.depth:
            self.update()

    def run(self, arrivals: Sequence[Arrival] = (), steps_max: int = 20_000) -> Play:
        """Plays arrivals (time, name, what `add` takes) until nothing is left."""
        coming = sorted(arrivals, key=lambda arrival: arrival[0])
        for _ in range(steps_max):
            while coming and coming[0][0] <= self.clock.now_us:
                _, name, given = coming.pop(0)
                self.add(name, **given)
            if self.scheduler.has_unfinished_requests():
                self.step()
            elif self.pending:
                self.update()
            elif coming:
                self.clock.now_us = max(self.clock.now_us, coming[0][0])
            else:
                return self.play
        raise AssertionError("the calls do not end")


def stock(depth: int) -> type[Any]:
    cls: type[Any] = AsyncScheduler if depth > 1 else Scheduler
    return cls
