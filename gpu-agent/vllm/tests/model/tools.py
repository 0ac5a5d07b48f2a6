"""One vLLM with a real model on CPU, in float32, serving programs whose tools really run: `python -m model.tools MODEL on|off`.

`on` or `off` is the prefix cache. KV has room for a third of all contexts. The same programs are played several times, under
one policy with each handling of contexts, and one handling under another policy. Each play is told as a line of JSON:
`{"play", "tokens": {call: [token]}, "tools": counts of contexts, "handled": {lease: decision}, "seconds", "free_blocks",
"images", "used_slabs"}`

Then other programs are played once, for whose contexts the least waste decides. Last, contexts are pinned once more,
`{"play": "holding", "pinned_blocks"}` is told, and the process waits to be killed.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from .real_engine import BLOCK_TOKENS, TOKENS_MAX, RealEngine, tell

# isort: split
from vllm import SamplingParams

#: Policy, and what it chooses from.
PLAYS: dict[str, tuple[str, list[str]]] = {
    "preserve": ("infercept", ["preserve"]),
    "swap": ("infercept", ["swap"]),
    "discard": ("infercept", ["discard"]),
    "swap by lamps": ("lamps", ["swap"]),
}
LEAST_WASTE = "least waste"
SEATS = 2
BLOCKS = 65
SEED = 11
#: Of a program with tools. With its answer it has a few tokens more than 10 blocks, and four of them take 44.
CONTEXT_TOKENS = 314
#: Of a program whose context is computed sooner than it is moved.
SMALL_TOKENS = 40
PROGRAMS = 4
TOOL_S = (1.0, 1.5, 2.0, 3.0)
TOOLS_OF_A_PROGRAM = 1
#: Programs of one call beside them, which take every block that is left more than once.
OTHERS = 7
OTHER_TOKENS = 200
OUTPUT_TOKENS = 8


@dataclass
class Program:
    name: str
    tokens: list[int]
    tools_left: int = 0
    #: How long its tool takes, and is said to take.
    tool_s: float = 0
    told_s: float = 0


class Tools(RealEngine):
    def __init__(self, model: str, prefix_cache: bool) -> None:
        super().__init__(model, seats=SEATS, blocks=BLOCKS, policy="infercept", prefix_cache=prefix_cache)
        self.tokens: dict[str, list[int]] = {}

    def play(self, name: str) -> dict[str, Any]:
        policy, handling = PLAYS[name]
        draw = random.Random(SEED)
        others = [Program(f"other-{index}", tokens(draw, OTHER_TOKENS)) for index in range(OTHERS)]
        programs = [
            Program(f"p{index}", tokens(draw, CONTEXT_TOKENS), TOOLS_OF_A_PROGRAM, tool_s, tool_s)
            for index, tool_s in zip(range(PROGRAMS), TOOL_S, strict=True)
        ]
        return self.played(name, {"policy": policy, "handling": handling}, [*programs, *others])

    def play_least_waste(self) -> dict[str, Any]:
        """Contexts of three kinds: of a tool that is back at once, of one that lasts, and small ones of one that lasts.

        Moving a context is said to take longer than computing a small one and less long than computing a large one, and
        long tools are said to outlast both, on a machine of any speed.
        """
        memory = self.scheduler.switchyard.memory
        forward = memory.current.costs.forward
        small_us, large_us = forward.us(SMALL_TOKENS), forward.us(CONTEXT_TOKENS)
        move_us = math.sqrt(small_us * large_us) / 2
        said = replace(memory._swap_costs(), base_us=move_us)
        memory._swap_costs = lambda: said
        memory._set_costs(None)
        # A machine that is busier meanwhile changes nothing.
        memory._set_costs = lambda _: None
        long_s = 4 * BLOCKS * BLOCK_TOKENS / SMALL_TOKENS * large_us / 1e6
        draw = random.Random(SEED + 1)
        programs = [
            Program("at-once", tokens(draw, CONTEXT_TOKENS), 1),
            Program("lasts", tokens(draw, CONTEXT_TOKENS), 1, 2, long_s),
            Program("small", tokens(draw, SMALL_TOKENS), 1, 2, long_s),
        ]
        others = [Program(f"other-{index}", tokens(draw, OTHER_TOKENS)) for index in range(OTHERS)]
        return self.played(LEAST_WASTE, {"policy": "lamps"}, [*programs, *others])

    def played(self, name: str, options: dict[str, Any], programs: list[Program]) -> dict[str, Any]:
        self.scheduler.switchyard_meter.mailbox.ask(0, options)
        before = self.counts()
        self.records()
        self.tokens = {}
        begun_s = time.monotonic()
        self.serve(name, programs)
        counts = self.counts()
        seconds = round(time.monotonic() - begun_s, 1)
        self.scheduler.switchyard.tools.clear()
        return {
            "play": name,
            "tokens": self.tokens,
            "tools": {name: counts[name] - before[name] for name in counts},
            "handled": {one["lease"]: one["handled"] for one in self.records() if "handled" in one},
            "seconds": seconds,
            **self.left(),
        }

    def counts(self) -> dict[str, int]:
        counts = self.scheduler.switchyard.tools.counts()
        of = {f"{name}_{count}": of for name in ("preserve", "discard", "swap") for count, of in counts[name].items()}
        return {**of, "relieved": counts["relieved"], "swapped_in": self.swap.swapped_in}

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
        tools = [[1, program.told_s * 1e6, 10]] if program.tools_left > 0 else []
        ticket = {
            "switchyard_lease": lease,
            "switchyard_tenant": "t",
            "switchyard_program": program.name,
            "switchyard_forecast": json.dumps([OUTPUT_TOKENS, tools, 1]),
        }
        sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0, ignore_eos=True, extra_args=ticket)
        self.engine.add_request(lease, {"prompt_token_ids": list(program.tokens)}, sampling)

    def hold(self) -> int:
        """Contexts are pinned, and nothing runs."""
        self.scheduler.switchyard_meter.mailbox.ask(1, {"policy": "vllm-preserve"})
        self.add("held", Program("held", [7] * CONTEXT_TOKENS, 1, 60, 60))
        while self.engine.has_unfinished_requests():
            self.engine.step()
        return int(self.scheduler.switchyard.tools.pinned.blocks)


def tokens(draw: random.Random, count: int) -> list[int]:
    return [draw.randrange(TOKENS_MAX) for _ in range(count)]


def main() -> None:
    model, prefix_cache = sys.argv[1:]
    tools = Tools(model, prefix_cache == "on")
    for name in PLAYS:
        tell(tools.play(name))
    tell(tools.play_least_waste())
    tell({"play": "holding", "pinned_blocks": tools.hold()})
    time.sleep(600)


if __name__ == "__main__":
    main()
