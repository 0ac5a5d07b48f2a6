"""What an operator can set. Anything unknown or impossible is refused.

Options are in the variable SWITCHYARD_VLLM_OPTIONS, as JSON. vLLM's own place for them, `--additional-config`, is part of the
key under which it keeps compiled code: there, each policy and each socket has the model compiled anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from .handling.waste import HANDLINGS, Handling
from .order.index_table import OBJECTIVES, Objective
from .order.policies import POLICY_NAMES, create_policy
from .order.policies.lamps import Starvation
from .order.policies.levels import CPU_RESIDENT_WEIGHT, cpu_prefill_us_per_token
from .order.policy import ClassLookup, EngineMemory, Policy, Ties
from .order.seating import SeatingConfig, Standby
from .order.service import ServiceReading

#: `agent`: session ids and the ticket's fields in vllm_xargs are believed. `session`: session ids alone, for a vLLM that
#: clients reach without an agent before it, since a client that writes the ticket's fields schedules itself.
IdentitySource = Literal["agent", "session"]


ENVIRONMENT = "SWITCHYARD_VLLM_OPTIONS"


class OptionsError(ValueError):
    """The operator's options cannot be used. The message is one sentence that says which and why."""


@dataclass(frozen=True, slots=True)
class Options:
    policy: str = "plas"
    ordering: ServiceReading = "modelled"
    #: The first quantum of levels, and that of rr. None: the policy's default in this reading.
    quantum_s: float | None = None
    levels: int | None = None
    quantum_ratio: float | None = None
    beta: float | None = None
    #: Levels by which a waiting call must be better to take a seat. None: the policy's default.
    preemption_levels_min: float | None = None
    #: What plas, atlas and learned take computing a prompt token for. None: what it costs on a GPU, or on a CPU.
    prefill_us_per_token: float | None = None
    #: Of plas and atlas: resident prompt tokens lift their program by so many times what computing them costs. None: twice on
    #: a GPU, half on a CPU.
    resident_weight: float | None = None
    #: How mlfq and rr queue: calls or programs. None: calls, as in the literature.
    ties: Ties | None = None
    #: What learned makes small: the mean latency per output token of programs, or their mean response time.
    #: None: the latency per token.
    objective: Objective | None = None
    #: How fast a program that waits rises under learned: it halves the index each time that 1 + its wait over `age_scale`
    #: times its usual service grows by so many octaves. None: it does not.
    age_octaves: int | None = None
    age_scale: float | None = None
    #: Of lamps and learned-memory: a call is scored again once in so many of its tokens, waits for so many iterations before
    #: it goes to the head of the queue, and stays there until its program is complete or until it has run for an iteration.
    #: None: the policy's defaults.
    refresh_tokens: int | None = None
    starvation_iterations: int | None = None
    starvation: Starvation | None = None
    #: What lamps, learned-memory and infercept choose from for contexts while tools run. None: all.
    handling: Sequence[Handling] | None = None
    steps_per_decision: int = 1
    preemptions_per_decision_max: int | None = None
    #: Which call gets a seat that falls free between decisions: the next in order, or the next one that holds its KV.
    standby: Standby = "in_order"
    identity: IdentitySource = "agent"
    #: Puts what was measured into `kv_transfer_params.switchyard` of bodies that are not streamed.
    report_in_body: bool = True
    #: Calls wait rather than take the KV of a better program whose tool runs (kv_hold.py). Of policies that queue programs.
    hold_kv: bool = True
    #: Path of the Unix socket on which an agent is spoken to (side_channel.py). None: there is none.
    socket: str | None = None
    #: Filled in by `read_options`.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: The model is computed on a CPU. Filled in by `operators_options`.
    on_cpu: bool = False

    def create_policy(self, classes: ClassLookup | None = None, memory: EngineMemory | None = None) -> Policy[Any]:
        """`classes`: what is known of them, for policies that learn. `memory`: what that of the engine costs, for those that
        weigh it."""
        parameters = dict(self.parameters)
        if self.on_cpu and self.policy in ("plas", "atlas", "learned"):
            parameters.setdefault("prefill_us_per_token", cpu_prefill_us_per_token(self.policy, self.ordering))
        if self.on_cpu and self.policy in ("plas", "atlas"):
            parameters.setdefault("resident_weight", CPU_RESIDENT_WEIGHT)
        return create_policy(self.policy, parameters, self.ordering, classes=classes, memory=memory)

    def seating(self, seats: int) -> SeatingConfig:
        return SeatingConfig(
            seats=seats,
            steps_per_decision=self.steps_per_decision,
            preemptions_per_decision_max=self.preemptions_per_decision_max,
            standby=self.standby,
        )


_NUMBERS = {
    "quantum_s",
    "quantum_ratio",
    "beta",
    "preemption_levels_min",
    "prefill_us_per_token",
    "resident_weight",
    "age_scale",
}
_INTEGERS = {
    "levels",
    "age_octaves",
    "refresh_tokens",
    "starvation_iterations",
    "steps_per_decision",
    "preemptions_per_decision_max",
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "policy": POLICY_NAMES,
    "ties": get_args(Ties),
    "objective": OBJECTIVES,
    "starvation": get_args(Starvation),
    "ordering": get_args(ServiceReading),
    "standby": get_args(Standby),
    "identity": get_args(IdentitySource),
}
_FLAGS = {"report_in_body", "hold_kv"}
_LISTS: dict[str, tuple[str, ...]] = {"handling": HANDLINGS}
_TEXTS = {"socket"}
_KNOWN = _NUMBERS | _INTEGERS | _CHOICES.keys() | _FLAGS | _LISTS.keys() | _TEXTS
#: What an open call was measured or identified by, and where the agent is: these stay as they were at start.
_FIXED = ("ordering", "identity", "socket")
#: A Unix socket's path has room for so many bytes in every system's sockaddr_un.
SOCKET_PATH_BYTES_MAX = 103
#: Options that are parameters of policies, and what policies call them.
_PARAMETERS = {
    "levels": "levels",
    "quantum_ratio": "quantum_ratio",
    "beta": "promotion_ratio",
    "preemption_levels_min": "preemption_levels_min",
    "prefill_us_per_token": "prefill_us_per_token",
    "resident_weight": "resident_weight",
    "ties": "ties",
    "objective": "objective",
    "age_octaves": "age_octaves",
    "age_scale": "age_scale",
    "refresh_tokens": "refresh_tokens",
    "starvation_iterations": "starvation_iterations",
    "starvation": "starvation",
}


def read_options(additional_config: object) -> Options:
    """Reads `vllm_config.additional_config`; without a `switchyard` in it, the defaults."""
    section = additional_config.get("switchyard", {}) if isinstance(additional_config, Mapping) else {}
    if not isinstance(section, Mapping):
        raise OptionsError("switchyard: the options must be a JSON object")
    for name, value in section.items():
        _check(name, value)
    given: dict[str, Any] = dict(section)
    try:
        options = Options(**given, parameters=_parameters(given))
        options.create_policy()
        options.seating(1)
    except ValueError as error:
        raise OptionsError(f"switchyard: {error}") from None
    return options


def operators_options(additional_config: object, environ: Mapping[str, str], *, on_cpu: bool = False) -> Options:
    """From the environment, or from `additional_config` where nothing is there."""
    return replace(_operators_options(additional_config, environ), on_cpu=on_cpu)


def _operators_options(additional_config: object, environ: Mapping[str, str]) -> Options:
    text = environ.get(ENVIRONMENT)
    if text is None:
        return read_options(additional_config)
    if isinstance(additional_config, Mapping) and "switchyard" in additional_config:
        raise OptionsError(f"switchyard: options are in {ENVIRONMENT} and in --additional-config: leave one out")
    try:
        section = json.loads(text)
    except ValueError as error:
        raise OptionsError(f"switchyard: {ENVIRONMENT} is not JSON: {error}") from None
    return read_options({"switchyard": section})


def change_options(current: Options, section: Mapping[str, Any]) -> Options:
    """The options that follow from a new section, as a whole; what it leaves out has its default, but for the fixed ones."""
    kept = {name: getattr(current, name) for name in _FIXED if getattr(current, name) is not None}
    changed = read_options({"switchyard": {**kept, **section}})
    for name in _FIXED:
        if getattr(changed, name) != getattr(current, name):
            raise OptionsError(f"switchyard: {name} cannot be changed while the engine runs")
    return replace(changed, on_cpu=current.on_cpu)


def _check(name: object, value: object) -> None:
    if name not in _KNOWN:
        raise OptionsError(f"switchyard: there is no option {name!r}; there are {', '.join(sorted(_KNOWN))}")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _NUMBERS and not (is_number and math.isfinite(value)):  # type: ignore[arg-type]
        raise OptionsError(f"switchyard: {name} must be a number, not {value!r}")
    if name in _INTEGERS and (not is_number or not isinstance(value, int)):
        raise OptionsError(f"switchyard: {name} must be an integer, not {value!r}")
    if name in _FLAGS and not isinstance(value, bool):
        raise OptionsError(f"switchyard: {name} must be true or false, not {value!r}")
    if name in _LISTS and not (isinstance(value, list) and value and all(one in _LISTS[str(name)] for one in value)):
        raise OptionsError(f"switchyard: {name} must be a list of {', '.join(_LISTS[str(name)])}, not {value!r}")
    if name in _TEXTS and not (isinstance(value, str) and 0 < len(value.encode()) <= SOCKET_PATH_BYTES_MAX):
        raise OptionsError(f"switchyard: {name} must be a path of at most {SOCKET_PATH_BYTES_MAX} bytes, not {value!r}")
    if name in _CHOICES and value not in _CHOICES[str(name)]:
        raise OptionsError(f"switchyard: {name} must be one of {', '.join(_CHOICES[str(name)])}, not {value!r}")


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    policy = given.get("policy", "plas")
    parameters: dict[str, Any] = {ours: given[name] for name, ours in _PARAMETERS.items() if name in given}
    if "quantum_s" in given:
        parameters["quantum_us" if policy == "rr" else "first_quantum_us"] = given["quantum_s"] * 1e6
    if "handling" in given:
        parameters["handling"] = {"allowed": given["handling"]}
    return parameters
