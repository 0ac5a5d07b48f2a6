"""What is expected of one call before it runs. The same as `src/core/call/forecast.ts`, as far as an engine reads it."""

from __future__ import annotations

from dataclasses import dataclass

from ..handling.waste import ToolChance, expected_tool_us

#: The likeliest one and its alternatives.
TOOLS_MAX = 4


@dataclass(frozen=True, slots=True)
class CallForecast:
    """Advice: a wrong one costs time, never correctness."""

    #: Mean length of the whole answer.
    output_tokens: float
    #: Tools that may follow, the likeliest first. Empty: none is expected.
    tools: tuple[ToolChance, ...]
    #: From 0 (a guess from other classes) to 1 (certain).
    confidence: float

    @property
    def follows(self) -> float:
        """The probability that a tool follows the call."""
        return sum(tool.probability for tool in self.tools)

    @property
    def tool_us(self) -> float | None:
        """How long the tool after the call is expected to run. None: no tool is expected."""
        return expected_tool_us(self.tools, self.confidence)
