"""Figures of a play, and how it compares with vLLM's own order."""

from __future__ import annotations

from typing import Any

HANDLINGS = ("preserve", "discard", "swap")
_SUMS = ("preemptions", "swapped_out_tokens", "swapped_in_tokens", "recomputed_tokens", "swap_us", "cached_tokens")
#: Of the plug-in since it started: what a play adds.
_GROWING = ("steps", "decisions", "decision_us", "swap_declined")
_CONTEXT_EVENTS = ("relieved", "revised", "prefetched", "displaced", "expired", "swap_us")
_HOLDS = ("returned", "given_up", "expired", "held_back")
_STATES = ("failed", "failures", "failed_reason", "malformed_tickets", "swap_failed", "swap_costs")


def latencies(told: dict[str, Any]) -> dict[str, Any]:
    by_kind: dict[str, list[float]] = {}
    for program in told["programs"]:
        by_kind.setdefault(program["kind"], []).append(program["token_latency_ms"])
    every = sorted(value for values in by_kind.values() for value in values)
    return {
        "programs": len(every),
        "token_latency_ms": {"mean": _mean(every), "p50": every[len(every) // 2], "p95": every[int(len(every) * 0.95)]},
        "by_kind_ms": {kind: _mean(values) for kind, values in sorted(by_kind.items())},
        "makespan_s": told["makespan_s"],
        "cached_on_return": _cached_on_return(told["programs"]),
    }


def _mean(values: list[float]) -> float:
    return round(sum(values) / max(1, len(values)), 2)


def _cached_on_return(programs: list[dict[str, Any]]) -> float | None:
    """Of contexts that a program's later calls go on from, the share whose KV was at hand."""
    tokens = sum(program["returned"]["tokens"] for program in programs)
    cached = sum(program["returned"]["cached_tokens"] for program in programs)
    return round(cached / tokens, 4) if tokens > 0 else None


def counts(told: dict[str, Any]) -> dict[str, Any]:
    """Empty of a vLLM without the plug-in."""
    records, before, after = told["records"], told["status_before"], told["status"]
    if not after:
        return {}
    grown = {name: after.get(name, 0) - before.get(name, 0) for name in _GROWING}
    steps, makespan_us = max(1, grown["steps"]), max(1.0, told["makespan_s"] * 1e6)
    waiting = told["waiting"]
    return {
        **{name: sum(record.get(name) or 0 for record in records) for name in _SUMS},
        **grown,
        "decision_us_per_step": round(grown["decision_us"] / steps),
        # Of all time, so it is no more than the share of a step where the engine stands still meanwhile.
        "decision_share": round(grown["decision_us"] / makespan_us, 4),
        "waiting": {"mean": _mean([float(one) for one in waiting]), "most": max(waiting, default=0)},
        "holds": _grown(before, after, "holds", _HOLDS),
        "contexts": _contexts(before, after),
        **{name: after[name] for name in _STATES if name in after},
    }


def _contexts(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What the policy did with contexts while tools ran. Empty: it handles none."""
    was, now = before.get("tools", {}), after.get("tools", {})
    of = {
        name: {count: value - was.get(name, {}).get(count, 0) for count, value in now.get(name, {}).items()}
        for name in HANDLINGS
    }
    if not any(one.get("decided") for one in of.values()):
        return {}
    return {**of, **_grown(before, after, "tools", _CONTEXT_EVENTS)}


def _grown(before: dict[str, Any], after: dict[str, Any], section: str, names: tuple[str, ...]) -> dict[str, int]:
    was, now = before.get(section, {}), after.get(section, {})
    return {name: now[name] - was.get(name, 0) for name in names if name in now}


def ratios(row: dict[str, Any], stock: dict[str, Any]) -> dict[str, float]:
    """To vLLM's own order."""
    kinds = [row["by_kind_ms"][kind] / stock["by_kind_ms"][kind] for kind in stock["by_kind_ms"]]
    return {
        "mean": round(row["token_latency_ms"]["mean"] / stock["token_latency_ms"]["mean"], 3),
        "worst_kind": round(max(kinds), 3),
        "makespan": round(row["makespan_s"] / stock["makespan_s"], 3),
    }


def equal_calls(expected: dict[str, list[list[int]]], found: dict[str, list[list[int]]]) -> dict[str, int]:
    calls = [(one, two) for program in expected for one, two in zip(expected[program], found[program], strict=True)]
    return {"calls": len(calls), "equal_calls": sum(one == two for one, two in calls)}
