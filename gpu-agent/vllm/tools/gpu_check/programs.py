"""Programs to play: the same for the same seed, as token ids, so that prefixes are shared exactly."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

VOCABULARY = 30_000
#: Of a system prompt that all programs of a workload begin with.
SYSTEM_TOKENS = 200

Range = tuple[int, int]


@dataclass(frozen=True)
class Kind:
    #: Of the workload's programs.
    share: float
    calls: Range
    first_prompt_tokens: Range
    #: What each later call's prompt has more than the last call and its answer.
    later_tokens: Range
    output_tokens: Range
    #: How long a tool runs between two calls, evenly. None: exponential, by a mean that the workload gives.
    tool_s: tuple[float, float] | None = None


#: Chats, agents and long writers, whose tools take hardly any time.
MIXED = {
    "chat": Kind(0.7, (1, 3), (300, 900), (40, 160), (30, 120)),
    "agent": Kind(0.2, (4, 7), (1200, 2400), (150, 500), (40, 160)),
    "long": Kind(0.1, (1, 2), (3000, 6000), (200, 600), (600, 1100)),
}
#: Agents whose tools really take time, so that their contexts lie unused meanwhile.
TOOLS = {
    "lookup": Kind(0.4, (4, 7), (800, 1600), (100, 300), (30, 90), (0.1, 0.6)),
    "build": Kind(0.4, (3, 5), (1500, 3000), (200, 600), (60, 160), (1.5, 5.0)),
    "wait": Kind(0.2, (2, 3), (1500, 3000), (200, 600), (40, 120), (6.0, 10.0)),
}
WORKLOADS = {"mixed": MIXED, "tools": TOOLS}


@dataclass(frozen=True)
class Turn:
    """One call: what its prompt has more than the last call and its answer, and how many tokens are generated."""

    new_tokens: tuple[int, ...]
    output_tokens: int
    #: How long a tool runs before it.
    tool_s: float
    #: What an agent that knows the kind would tell of the call, as its ticket has it.
    forecast: str


@dataclass(frozen=True)
class Program:
    name: str
    kind: str
    at_s: float
    turns: tuple[Turn, ...]

    @property
    def output_tokens(self) -> int:
        return sum(turn.output_tokens for turn in self.turns)


def programs_of(
    workload: str, seed: int, programs: int, per_s: float, tool_s: float = 0.3, scale: float = 1.0
) -> list[Program]:
    """A Poisson process. `tool_s`: the mean where the kind has none. `scale` shrinks all lengths."""
    kinds = WORKLOADS[workload]
    draw = random.Random(seed)
    system = tokens_of(draw, scaled(SYSTEM_TOKENS, scale))
    at_s, played = 0.0, []
    for index in range(programs):
        at_s += draw.expovariate(per_s)
        name = draw.choices(list(kinds), [one.share for one in kinds.values()])[0]
        kind = kinds[name]
        turns = []
        for call in range(draw.randint(*kind.calls)):
            length = kind.later_tokens if call else kind.first_prompt_tokens
            new = tokens_of(draw, scaled(draw.randint(*length), scale))
            turns.append(
                Turn(
                    new_tokens=new if call else (*system, *new),
                    output_tokens=scaled(draw.randint(*kind.output_tokens), scale),
                    tool_s=drawn_tool_s(draw, kind, tool_s) if call else 0.0,
                    forecast=forecast_of(kind, call, tool_s, scale),
                )
            )
        played.append(Program(f"{name}-{index}", name, at_s, tuple(turns)))
    return played


def drawn_tool_s(draw: random.Random, kind: Kind, mean_s: float) -> float:
    return draw.expovariate(1 / mean_s) if kind.tool_s is None else draw.uniform(*kind.tool_s)


def forecast_of(kind: Kind, call: int, tool_s: float, scale: float) -> str:
    """Of the kind's `call`th call, from 0 on: mean answer, and the tool that follows unless it is the last one.

    It knows the kind and nothing of the program: how many calls programs of the kind have, how long its tools run on average.
    """
    least, most = kind.calls
    done = call + 1
    follows = 1.0 if done < least else (most - done) / (most - done + 1)
    mean_s = tool_s if kind.tool_s is None else mean(kind.tool_s)
    tools = [[round(follows, 4), round(mean_s * 1e6), round(mean(kind.later_tokens) * scale)]] if follows > 0 else []
    return json.dumps([round(mean(kind.output_tokens) * scale), tools, 1])


def mean(of: tuple[float, float]) -> float:
    return (of[0] + of[1]) / 2


def tokens_of(draw: random.Random, count: int) -> tuple[int, ...]:
    return tuple(draw.randrange(10, VOCABULARY) for _ in range(count))


def scaled(count: int, scale: float) -> int:
    return max(2, round(count * scale))
