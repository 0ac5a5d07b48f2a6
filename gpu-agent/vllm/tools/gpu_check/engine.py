"""One vLLM with a model of random weights, and programs played on it: `python -m gpu_check.engine JSON`, which prints one JSON.

vLLM runs as it serves: its engine in a process of its own, with CUDA graphs and asynchronous scheduling. Each play has a
process of its own too, so that all of the GPU's memory is free again afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread
from typing import Any

from .programs import Program, mixed

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


_OF_A_GPU = {"attention_backend", "compilation_config", "gpu_memory_utilization"}


class Records(Thread):
    """Reads what the plug-in says to an agent: records of ended calls, and its status."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.records: list[dict[str, Any]] = []
        self.status: dict[str, Any] = {}
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(path)
        self._say({"type": "hello", "v": 1})
        self.start()

    def run(self) -> None:
        for line in self._connection.makefile("r"):
            message = json.loads(line)
            if message.get("type") == "record":
                self.records.append(message)
                self._say({"type": "ack", "number": message["number"]})
            elif message.get("type") == "status":
                self.status = message

    def _say(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")


async def play(given: dict[str, Any]) -> dict[str, Any]:
    from vllm import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    folder = Path(tempfile.mkdtemp(prefix="switchyard-gpu-check-"))
    path = str(folder / "engine.sock")
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
    if given["policy"] is not None:
        args |= {
            "scheduling_policy": "priority",
            "scheduler_cls": "switchyard_vllm.ProgramAwareScheduler",
        }
        os.environ["SWITCHYARD_VLLM_OPTIONS"] = json.dumps({"policy": given["policy"], "socket": path})
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
        heard = Records(path) if given["policy"] is not None else None
        programs = mixed(**given["programs"])
        await warm_up(engine)
        counted = 0 if heard is None else len(heard.records)
        started_s = time.monotonic()
        ended = await asyncio.gather(*(play_program(engine, program, started_s) for program in programs))
        makespan_s = time.monotonic() - started_s
        await asyncio.sleep(1.5)
        records = [] if heard is None else heard.records[counted:]
        return {
            "ready_s": round(ready_s, 1),
            "makespan_s": round(makespan_s, 2),
            "programs": [one["figures"] for one in ended],
            "tokens": {one["figures"]["name"]: one["tokens"] for one in ended},
            "records": records,
            "status": {} if heard is None else heard.status,
        }
    finally:
        engine.shutdown()


async def warm_up(engine: Any) -> None:
    """So that no play pays for what is compiled or captured at its first use."""
    prompts = [[7] * tokens for tokens in (16, 300, 1500)]
    await asyncio.gather(*(generate(engine, f"warm-{index}", one, 8, None) for index, one in enumerate(prompts)))


async def play_program(engine: Any, program: Program, started_s: float) -> dict[str, Any]:
    await asyncio.sleep(max(0.0, started_s + program.at_s - time.monotonic()))
    begun_s = time.monotonic()
    context: list[int] = []
    tools_s = 0.0
    answers = []
    for index, turn in enumerate(program.turns):
        await asyncio.sleep(turn.tool_s)
        tools_s += turn.tool_s
        context += turn.new_tokens
        answer = await generate(engine, f"{program.name}-{index}", context, turn.output_tokens, program.name)
        answers.append(answer)
        context += answer
    served_s = time.monotonic() - begun_s - tools_s
    latency_ms = 1000 * served_s / program.output_tokens
    return {
        "figures": {"name": program.name, "served_s": round(served_s, 3), "token_latency_ms": round(latency_ms, 3)},
        "tokens": answers,
    }


async def generate(engine: Any, call: str, prompt: list[int], output_tokens: int, program: str | None) -> list[int]:
    from vllm import SamplingParams

    ticket = {} if program is None else {"switchyard_tenant": "t", "switchyard_program": f"t/{program}"}
    sampling = SamplingParams(
        max_tokens=output_tokens, temperature=0, ignore_eos=True, detokenize=False, extra_args=ticket
    )
    answer: list[int] = []
    async for output in engine.generate({"prompt_token_ids": list(prompt)}, sampling, request_id=call):
        answer = list(output.outputs[0].token_ids)
    return answer


if __name__ == "__main__":
    told = asyncio.run(play(json.loads(sys.argv[1])))
    Path(sys.argv[2]).write_text(json.dumps(told))
