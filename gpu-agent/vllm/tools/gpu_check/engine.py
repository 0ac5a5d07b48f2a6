"""One vLLM with a model of random weights, and programs played on it: `python -m gpu_check.engine GIVEN.json ANSWER.json`.

vLLM runs as it serves: its engine in a process of its own, with CUDA graphs and asynchronous scheduling. This process
ends after its plays, so that all of the GPU's memory is free again. Between plays the plug-in takes another policy over its
side channel, and the prefix cache is emptied.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .channel import Channel
from .programs import Program, Turn, programs_of

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
# It is compiled at its first use, which a machine without a compiler or a network cannot do.
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32_000,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "max_position_embeddings": 16_384,
}
SHAPES: dict[str, dict[str, Any]] = {
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "torch_dtype": "bfloat16",
    },
    "small": {
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "torch_dtype": "float32",
    },
}


def model_folder(shape: str, folder: Path) -> str:
    (folder / "config.json").write_text(json.dumps(LLAMA | SHAPES[shape]))
    return str(folder)


TENANT = "t"
#: Ten seconds.
RESETS_MAX = 100
_OF_A_GPU = {"attention_backend", "compilation_config", "gpu_memory_utilization"}


async def serve(given: dict[str, Any], tell: Callable[[list[dict[str, Any]]], None]) -> None:
    """Plays what is given, one after the other, on one vLLM. `tell`: all plays so far, after each."""
    from vllm import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    folder = Path(tempfile.mkdtemp(prefix="switchyard-gpu-check-"))
    path = str(folder / "engine.sock")
    plays = given["plays"]
    plugged = plays[0]["policy"] is not None
    args: dict[str, Any] = {
        "model": model_folder(given["shape"], folder),
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "dtype": SHAPES[given["shape"]]["torch_dtype"],
        "max_model_len": 12_288,
        "block_size": 32,
        "max_num_seqs": given["seats"],
        "num_gpu_blocks_override": given["blocks"],
        "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.85,
        "disable_log_stats": True,
        **given.get("engine", {}),
    }
    if plugged:
        args |= {
            "scheduling_policy": "priority",
            "scheduler_cls": "switchyard_vllm.ProgramAwareScheduler",
        }
        os.environ["SWITCHYARD_VLLM_OPTIONS"] = json.dumps({"policy": plays[0]["policy"], "socket": path})
    if given.get("swap") is not None:
        args["kv_transfer_config"] = {
            "kv_connector": "BulkSwapConnector",
            "kv_connector_module_path": "switchyard_vllm.swap.connector",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": given["swap"],
        }
    if not current_platform.is_cuda():
        args = {name: value for name, value in args.items() if name not in _OF_A_GPU} | {"enforce_eager": True}
    begun_s = time.monotonic()
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**args))
    ready_s = time.monotonic() - begun_s
    try:
        channel = Channel(path) if plugged else None
        told: list[dict[str, Any]] = []
        for play in plays:
            told.append({"ready_s": round(ready_s, 1), **await played(engine, channel, play)})
            tell(told)
    finally:
        engine.shutdown()


async def played(engine: Any, channel: Channel | None, play: dict[str, Any]) -> dict[str, Any]:
    if channel is not None:
        channel.ask({"policy": play["policy"]})
        channel.tell_classes(play.get("classes") or [])
    await warm_up(engine)
    if channel is not None:
        await asyncio.to_thread(channel.verdict)
        await asyncio.to_thread(channel.wait_until_idle)
    await forget_prefixes(engine)
    programs = programs_of(**play["programs"])
    counted = 0 if channel is None else len(channel.records)
    statuses = 0 if channel is None else len(channel.waiting)
    before = {} if channel is None else channel.status
    started_s = time.monotonic()
    ended = await asyncio.gather(*(play_program(engine, channel, program, started_s) for program in programs))
    makespan_s = time.monotonic() - started_s
    if channel is not None:
        await asyncio.to_thread(channel.wait_until_idle)
    return {
        "makespan_s": round(makespan_s, 2),
        "programs": [one["figures"] for one in ended],
        "tokens": {one["figures"]["name"]: one["tokens"] for one in ended} if play.get("tokens") else {},
        "records": [] if channel is None else channel.records[counted:],
        "status_before": before,
        "status": {} if channel is None else channel.status,
        "waiting": [] if channel is None else channel.waiting[statuses:],
    }


async def warm_up(engine: Any) -> None:
    """So that no play pays for what is compiled or captured at its first use. Another policy is taken before its first step."""
    prompts = [[7] * tokens for tokens in (16, 300, 1500)]
    await asyncio.gather(*(generate(engine, f"warm-{index}", one, 8, {}) for index, one in enumerate(prompts)))


async def forget_prefixes(engine: Any) -> None:
    """Each play begins with an empty prefix cache: they have the same prompts. Blocks of a step under way are free soon."""
    for _ in range(RESETS_MAX):
        if await engine.reset_prefix_cache():
            return
        await asyncio.sleep(0.1)
    raise TimeoutError("vLLM does not reset its prefix cache: blocks are in use though no call is open")


async def play_program(engine: Any, channel: Channel | None, program: Program, started_s: float) -> dict[str, Any]:
    await asyncio.sleep(max(0.0, started_s + program.at_s - time.monotonic()))
    begun_s = time.monotonic()
    context: list[int] = []
    tools_s = 0.0
    answers = []
    returned = {"tokens": 0, "cached_tokens": 0}
    for index, turn in enumerate(program.turns):
        await asyncio.sleep(turn.tool_s)
        tools_s += turn.tool_s
        kept = len(context)
        context += turn.new_tokens
        call = f"{program.name}-{index}"
        answer, cached = await generate(engine, call, context, turn.output_tokens, ticket_of(program, call, turn))
        returned["tokens"] += kept
        returned["cached_tokens"] += min(kept, cached)
        answers.append(answer)
        context += answer
    if channel is not None:
        channel.ended(name_of(program))
    served_s = time.monotonic() - begun_s - tools_s
    latency_ms = 1000 * served_s / program.output_tokens
    figures = {
        "name": program.name,
        "kind": program.kind,
        "served_s": round(served_s, 3),
        "token_latency_ms": round(latency_ms, 3),
        "returned": returned,
    }
    return {"figures": figures, "tokens": answers}


def ticket_of(program: Program, call: str, turn: Turn) -> dict[str, Any]:
    return {
        "switchyard_lease": call,
        "switchyard_tenant": TENANT,
        "switchyard_program": name_of(program),
        "switchyard_class": program.kind,
        "switchyard_forecast": turn.forecast,
    }


def name_of(program: Program) -> str:
    return f"{TENANT}/{program.name}"


async def generate(
    engine: Any, call: str, prompt: list[int], output_tokens: int, ticket: dict[str, Any]
) -> tuple[list[int], int]:
    """The answer, and how much of the prompt was in the prefix cache when the call was first admitted."""
    from vllm import SamplingParams

    sampling = SamplingParams(
        max_tokens=output_tokens, temperature=0, ignore_eos=True, detokenize=False, extra_args=ticket
    )
    answer: list[int] = []
    cached = 0
    async for output in engine.generate({"prompt_token_ids": list(prompt)}, sampling, request_id=call):
        answer = list(output.outputs[0].token_ids)
        cached = output.num_cached_tokens or 0
    return answer, cached


def main() -> None:
    given, answer = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])

    def tell(told: list[dict[str, Any]]) -> None:
        written = answer.with_suffix(".new")
        written.write_text(json.dumps(told))
        written.replace(answer)

    asyncio.run(serve(given, tell))


if __name__ == "__main__":
    main()
