"""What is decided for the context of a program whose tool runs: by the policy before its call ran, or from the live batch."""

from __future__ import annotations

from typing import Any

from .handling.decision import HandlingDecision, HandlingReason
from .handling.waste import (
    Handling,
    HandlingChoice,
    HandlingRule,
    choose_handling,
    least_waste,
    revise_handling,
)
from .open_call import OpenCall
from .order.policy import DecidesEarly, EngineMemory, HandlesContexts, Policy


class ContextDecisions:
    def __init__(self, scheduler: Any, memory: EngineMemory, *, swaps: bool) -> None:
        """`swaps`: this engine can move KV."""
        self._scheduler = scheduler
        self._memory = memory
        self._swaps = swaps
        self._policy: Policy[Any] | None = None
        #: None: contexts are not handled.
        self.rule: HandlingRule | None = None
        self.allowed: tuple[Handling, ...] = ()

    def use(self, policy: Policy[Any]) -> None:
        self._policy = policy
        # Several kinds of layers share blocks in ways that vLLM alone knows.
        one_kind = len(self._scheduler.kv_cache_config.kv_cache_groups) == 1
        self.rule = policy.handling if one_kind and isinstance(policy, HandlesContexts) else None
        if self.rule is not None:
            swaps = self._swaps and self._memory.costs.swap is not None
            self.allowed = tuple(name for name in self.rule.allowed if swaps or name != "swap")

    def of_ended(self, open_call: OpenCall, tokens: int, tool_us: float) -> HandlingDecision:
        """Its call has ended, and has so many tokens in whole blocks."""
        choice = self._choose(open_call, tokens, tool_us)
        return HandlingDecision(choice.handling, self._reason(open_call), choice.waste)

    def of_lasting(self, tokens: int, away_us: int) -> Handling:
        """Its tool has lasted for longer than expected."""
        others = self._other_tokens(None)
        return revise_handling(self._memory.costs, tokens, others, away_us, self.allowed).handling

    def _choose(self, open_call: OpenCall, tokens: int, tool_us: float) -> HandlingChoice:
        policy: object = self._policy
        early = policy.handling_of(open_call.state.place) if isinstance(policy, DecidesEarly) else None
        if early is None:
            other_tokens = self._other_tokens(open_call.request)
            return choose_handling(self._memory.costs, tokens, other_tokens, tool_us, self.allowed)
        if early.handling in self.allowed:
            return early
        return HandlingChoice(least_waste(early.waste, self.allowed), early.waste)

    def _reason(self, open_call: OpenCall) -> HandlingReason:
        if len(self.allowed) == 1:
            return "only_choice"
        return "not_foreseen" if open_call.state.call.forecast is None else "least_waste"

    def _other_tokens(self, ended: Any) -> int:
        return sum(int(request.num_computed_tokens) for request in self._scheduler.running if request is not ended)
