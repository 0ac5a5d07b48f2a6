"""vLLM keeps compiled code under a key. What the agent gives each engine and each policy of its own must not be part of it."""

from __future__ import annotations

from typing import Any

import pytest
from vllm import envs

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.options import ENVIRONMENT

from .harness import Engine, vllm_config
from .swap_engine import kv_transfer


def compile_key(**changed: Any) -> tuple[str, dict[str, object]]:
    """Of vLLM's own: its configuration, and its environment."""
    given: dict[str, Any] = {
        "seats": 8,
        "blocks": 100,
        "block_tokens": 32,
        "step_tokens": 2048,
        "chunk_tokens": 0,
        "prefix_cache": True,
        "policy": "priority",
        "is_async": False,
        "additional": {},
        "kv_transfer": None,
    }
    return vllm_config(**(given | changed)).compute_hash(), envs.compile_factors()


ENGINES = ('{"policy": "plas", "socket": "/run/e0.sock"}', '{"policy": "atlas", "socket": "/run/e1.sock"}')


def test_two_engines_of_other_policies_sockets_keys_and_gpus_share_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = []
    for index, options in enumerate(ENGINES):
        monkeypatch.setenv(ENVIRONMENT, options)
        monkeypatch.setenv("VLLM_API_KEY", f"key-{index}")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", str(index))
        keys.append(compile_key())
    assert keys[0] == keys[1]


def test_a_larger_arena_of_the_swap_or_other_costs_share_it_too() -> None:
    one = compile_key(kv_transfer=kv_transfer(arena_tokens=1 << 14))
    other = compile_key(kv_transfer=kv_transfer(arena_tokens=1 << 15, costs={"base_us": 3}))
    assert one == other


def test_in_vllms_own_place_for_options_they_would_not() -> None:
    keys = [compile_key(additional={"switchyard": {"socket": socket}}) for socket in ("/run/e0.sock", "/run/e1.sock")]
    assert keys[0] != keys[1]


def test_a_scheduler_goes_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, '{"policy": "atlas"}')
    engine = Engine(ProgramAwareScheduler)
    assert engine.scheduler.switchyard_options.policy == "atlas"
