"""What an operator sets of the swap, in `kv_connector_extra_config`, and what it cannot work with. Unknown names are
refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

GIB = 2**30
#: `auto`: by costs. `always`: every preempted call, at any cost; for tests.
SwapMode = Literal["auto", "always"]
BACKENDS = ("auto", "torch", "triton", "vllm")


class SwapOptionsError(ValueError):
    """The swap cannot be set up this way. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class SwapOptions:
    #: Host memory for images, of each worker.
    arena_gib: float = 4.0
    #: Device memory of each worker beside the KV cache: through which images leave, and in which they wait to come back.
    ring_gib: float = 1.0
    prefetch_gib: float = 1.0
    backend: str = "auto"
    mode: SwapMode = "auto"
    #: Debug mode.
    checksums: bool = False
    #: An operation's own cost, a token's on its way out and back, and that of computing a token again. None: what is measured.
    base_us: float | None = None
    save_us_per_token: float | None = None
    restore_us_per_token: float | None = None
    recompute_us_per_token: float | None = None


_SIZES = ("arena_gib", "ring_gib", "prefetch_gib")
_TIMES = ("base_us", "save_us_per_token", "restore_us_per_token", "recompute_us_per_token")
_CHOICES: Mapping[str, tuple[str, ...]] = {"backend": BACKENDS, "mode": get_args(SwapMode)}


def read_swap_options(given: Mapping[str, Any]) -> SwapOptions:
    known = {one.name for one in fields(SwapOptions)}
    for name, value in given.items():
        if name not in known:
            raise SwapOptionsError(
                f"switchyard: the KV swap has no option {name!r}; there are {', '.join(sorted(known))}"
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name in _SIZES and not (is_number and value > 0):
            raise SwapOptionsError(f"switchyard: {name} must be a number of GiB above 0, not {value!r}")
        if name in _TIMES and not (is_number and value >= 0):
            raise SwapOptionsError(f"switchyard: {name} must be a number of microseconds from 0 on, not {value!r}")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise SwapOptionsError(f"switchyard: {name} must be one of {', '.join(_CHOICES[name])}, not {value!r}")
        if name == "checksums" and not isinstance(value, bool):
            raise SwapOptionsError(f"switchyard: checksums must be true or false, not {value!r}")
    return SwapOptions(**given)


def refuse_unsupported(vllm_config: Any, kv_cache_config: Any) -> None:
    """Of this model or these settings KV cannot be swapped: vLLM does not start, and says why."""
    without = "Start vLLM without --kv-transfer-config (the agent's --kv-swap)"
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise SwapOptionsError(
            f"switchyard: KV of models with several kinds of layers is not swapped, and this one has {len(groups)}. {without}"
        )
    for spec in _layer_specs(groups[0].kv_cache_spec):
        if type(spec).__name__ not in _FULL_ATTENTION or getattr(spec, "non_causal", False):
            raise SwapOptionsError(f"switchyard: KV of {type(spec).__name__} layers is not swapped. {without}")
    if getattr(kv_cache_config, "needs_kv_cache_zeroing", False):
        raise SwapOptionsError(f"switchyard: this model has its KV blocks zeroed before they could be saved. {without}")
    if vllm_config.speculative_config is not None:
        raise SwapOptionsError(
            f"switchyard: KV is not swapped beside speculative decoding. {without}, or without drafts"
        )
    parallel = vllm_config.parallel_config
    for name in ("pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            raise SwapOptionsError(f"switchyard: KV is not swapped with {name} above 1. {without}")
    transfer = vllm_config.kv_transfer_config
    if transfer.kv_role != "kv_producer":
        raise SwapOptionsError(
            f"switchyard: the KV swap needs kv_role kv_producer, not {transfer.kv_role}: "
            "for a consumer vLLM gives a preempted call's blocks back one step late"
        )


#: Kinds of layers whose KV of a token never changes once it is written, and is read as long as the call runs.
_FULL_ATTENTION = ("FullAttentionSpec", "MLAAttentionSpec")


def _layer_specs(spec: Any) -> list[Any]:
    """Layers of one kind and several sizes come as one spec of specs."""
    specs = getattr(spec, "kv_cache_specs", None)
    return [spec] if specs is None else list(specs.values())


def block_bytes(kv_cache_config: Any) -> int:
    """Of one block over all layers of a worker."""
    (group,) = kv_cache_config.kv_cache_groups
    spec = group.kv_cache_spec
    layers = 1 if hasattr(spec, "kv_cache_specs") else len(group.layer_names)
    return int(spec.page_size_bytes * layers)
