"""What is played, on which vLLM."""

from __future__ import annotations

from typing import Any

#: Of the 8B shape in bfloat16.
BYTES_PER_TOKEN = 2 * 32 * 8 * 128 * 2
BLOCK_TOKENS = 32
KV_GIB = 5.0
RING_GIB = 0.25
GIB = 2**30


def blocks_of(gib: float) -> int:
    return int(gib * GIB) // (BYTES_PER_TOKEN * BLOCK_TOKENS)


#: Prompts of up to 1,300 tokens and float32: a backend that has it.
EXACT: dict[str, Any] = {
    "shape": "small",
    "engine": {"attention_backend": "TRITON_ATTN", "enforce_eager": True, "max_model_len": 2048},
}
EXACT_PROGRAMS = {"workload": "mixed", "seed": 5, "programs": 40, "per_s": 40.0, "tool_s": 0.02, "scale": 0.15}
SWAPPED = {"arena_gib": 2.0, "ring_gib": 0.25, "prefetch_gib": 0.25, "mode": "always", "checksums": True}
FEW_SEATS = {"seats": 6, "blocks": 80}
#: Engine, and what it plays. Contexts that are pinned while tools run, and preempted calls with images, on the second one.
EXACT_ENGINES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "undisturbed": ({"seats": 64, "blocks": 4000}, ("fcfs",)),
    "swapped": ({**FEW_SEATS, "swap": SWAPPED}, ("plas", "lamps")),
    "computed again": (FEW_SEATS, ("plas", "vllm-preserve")),
}

#: Decoding in CUDA graphs, nothing compiled.
GRAPHS = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
LOADED: dict[str, Any] = {"shape": "8b", "engine": {"compilation_config": GRAPHS}, "seats": 48}
#: By part.
LOADED_PROGRAMS: dict[str, dict[str, Any]] = {
    "programs": {"workload": "mixed", "seed": 11, "programs": 160, "per_s": 12.0},
    "tools": {"workload": "tools", "seed": 23, "programs": 64, "per_s": 6.0},
}
QUICK_PROGRAMS = 24
STOCK = "vLLM"
WITH_SWAP = "with KV swap"
#: The swap's device memory is taken from the KV, so all have the same in total.
LOADED_ENGINES: dict[str, dict[str, Any]] = {
    "vLLM": {"blocks": blocks_of(KV_GIB)},
    "swap": {
        "blocks": blocks_of(KV_GIB - 2 * RING_GIB),
        "swap": {"arena_gib": 32.0, "ring_gib": RING_GIB, "prefetch_gib": RING_GIB},
    },
    "plug-in": {"blocks": blocks_of(KV_GIB)},
}
#: Part and policy, the most telling first: a run that is cut has those.
LOADED_PLAYS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "vLLM": (("programs", None), ("tools", None)),
    "swap": (
        ("programs", "plas"),
        ("tools", "lamps"),
        ("tools", "learned-memory"),
        ("tools", "infercept"),
    ),
    "plug-in": (
        ("programs", "plas"),
        ("tools", "plas"),
        ("tools", "learned"),
        ("tools", "vllm-preserve"),
        ("tools", "vllm-discard"),
        ("tools", "fcfs-program"),
        ("programs", "learned"),
        ("programs", "fcfs-program"),
        ("tools", "atlas"),
        ("programs", "atlas"),
    ),
}


def loaded_run(engine: str, parts: list[str], quick: bool, classes: list[dict[str, Any]]) -> dict[str, Any]:
    """What the engine's process is given."""
    plays = []
    for part, policy in LOADED_PLAYS[engine]:
        if part in parts:
            programs = {**LOADED_PROGRAMS[part], **({"programs": QUICK_PROGRAMS} if quick else {})}
            plays.append(
                {
                    "part": part,
                    "name": play_name(engine, policy),
                    "policy": policy,
                    "programs": programs,
                    "classes": classes,
                }
            )
    return {**LOADED, **LOADED_ENGINES[engine], "plays": plays}


def play_name(engine: str, policy: str | None) -> str:
    if policy is None:
        return STOCK
    return f"{policy} {WITH_SWAP}" if engine == "swap" else policy


def exact_run(engine: str) -> dict[str, Any]:
    setting, policies = EXACT_ENGINES[engine]
    plays = [
        {"name": f"{engine}, {policy}", "policy": policy, "programs": EXACT_PROGRAMS, "tokens": True}
        for policy in policies
    ]
    return {**EXACT, **setting, "plays": plays}
