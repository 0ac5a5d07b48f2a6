"""Measures how long KV takes to leave the device and to come back, by method, and compares with the measured limit of the link.

    python -m bench_swap [--json FILE] [--quick] [--models NAMES] [--methods NAMES] [--tokens N,N] [--repeats N] [--ring-mib N]

Run it with src/ and tools/ of gpu-agent/vllm on PYTHONPATH. It needs torch, and Triton on a GPU. Without a GPU it moves a tiny
model's KV within host memory: the figures then mean nothing (`meaningful` is false) and only show that it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from switchyard_vllm.swap.host_arena import HostBuffer
from switchyard_vllm.swap.kv_layers import KvLayers
from switchyard_vllm.swap.streams import Streams, streams_of

from .decode_load import DecodeLoad
from .measure import Link, Measure, link_beside_decode, link_limit
from .methods import METHODS, Method, methods_here
from .shapes import MODELS, KvPlan, kv_layers, scattered

#: Of the JSON file's shape.
FORMAT = 1
_GPU_POOL_BYTES = 22 * 2**30
_GPU_HOST_BYTES = 17 * 2**30
_CPU_BYTES = 64 * 2**20
_MANY = 16
_GPU_REPEATS = 7
_BIG_TOKENS = 16_384
_MANY_PIECES = 40_000
_STARTED_S = time.perf_counter()
#: Ours, and those that it is compared with in every layout.
_DIRECT = ("staged-triton", "copy-per-block-and-layer", "batch-copy")


@dataclass(frozen=True)
class Case:
    plan: KvPlan
    tokens: int
    #: Calls moved one after the other.
    calls: int = 1
    #: Empty: all.
    methods: tuple[str, ...] = ()
    ring_mib: int | None = None

    @property
    def name(self) -> str:
        plan = self.plan
        return f"{plan.model} {plan.layout} block {plan.block_tokens}, {self.tokens} tokens" + (
            f" x {self.calls}" if self.calls > 1 else ""
        )


def all_cases(quick: bool) -> list[Case]:
    big, tp4, tp8 = "llama-3-8b", "llama-3-70b-tp4", "llama-3-70b-tp8"
    if quick:
        plans = [KvPlan(big, 16, "LBHNC"), KvPlan(tp8, 16, "LBHNC")]
        return [Case(plan, 8192) for plan in plans] + [Case(plans[0], 2048, _MANY)]
    plain = KvPlan(big, 16, "LBHNC")
    cases = [Case(plain, tokens) for tokens in (8192, 1024, 2048, 4096)]
    cases += [Case(KvPlan(tp8, 16, "LBHNC"), tokens) for tokens in (8192, 1024)]
    cases += [Case(plain, 2048, _MANY), Case(plain, 2048, _MANY, ("staged-triton",), ring_mib=4096)]
    cases += [Case(KvPlan(big, 16, layout), 8192, methods=_DIRECT) for layout in ("2BNHD", "BLHNC")]
    cases += [
        Case(KvPlan(big, 32, "LBHNC"), 8192, methods=_DIRECT),
        Case(KvPlan(tp4, 16, "LBHNC"), 8192, methods=_DIRECT),
    ]
    cases += [Case(plain, tokens) for tokens in (16_384, 32_768)]
    cases += [Case(KvPlan(tp8, 16, "LBHNC"), 32_768, methods=_DIRECT), Case(plain, 8192, _MANY, _DIRECT)]
    return [*cases, Case(KvPlan(big, 16, "LHBNC"), 8192, methods=_DIRECT)]


def cpu_cases() -> list[Case]:
    plan = KvPlan("tiny", 16, "LBHNC")
    return [Case(plan, 256), Case(plan, 1024), Case(plan, 128, _MANY)]


@dataclass
class Bench:
    flags: argparse.Namespace
    device: Any
    pool: Any
    host: Any
    streams: Streams
    link: Link
    load: DecodeLoad | None
    missing: dict[str, str] = field(default_factory=dict)

    def measure(self, case: Case) -> Iterator[dict[str, Any]]:
        layers = kv_layers(case.plan, self.pool)
        ring_bytes = (case.ring_mib or self.flags.ring_mib) * 2**20
        for name in METHODS:
            if name not in (self.flags.methods or METHODS) or name not in (case.methods or METHODS):
                continue
            # One at a time: each has device memory of its own.
            made, missing = methods_here(layers, self.streams, self.host, ring_bytes, [name])
            self.missing |= missing
            for method in made:
                measure = Measure(layers, self.streams, self.load, self._repeats(case, layers))
                for figures in _measured(case, method, measure, self.link):
                    yield {**figures, "ring_bytes": ring_bytes if method.staged else 0}

    def beside_plain_copy(self) -> dict[str, Any] | None:
        if self.load is None:
            return None
        layers = kv_layers(KvPlan("llama-3-8b", 16, "LBHNC"), self.pool)
        beside = link_beside_decode(layers, self.host, self.streams, self.load, _GPU_REPEATS)
        return {"step_ms": self.load.step_ms, "slowdown_beside_plain_copy": beside}

    def _repeats(self, case: Case, layers: KvLayers) -> int:
        pieces = sum(len(group.offsets_bytes) for group in layers.groups) * case.plan.blocks(case.tokens) * case.calls
        large = case.tokens * case.calls >= _BIG_TOKENS or pieces >= _MANY_PIECES
        repeats = int(self.flags.repeats or (_GPU_REPEATS if self.load else 1))
        return max(1, repeats // 2) if large else repeats


def main(argv: Sequence[str]) -> int:
    flags = _flags(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device.type == "cuda"
    pool = torch.randint(0, 256, (_GPU_POOL_BYTES if on_gpu else _CPU_BYTES,), dtype=torch.uint8, device=device)
    host = HostBuffer(_GPU_HOST_BYTES if on_gpu else _CPU_BYTES, pinned=on_gpu)
    # Pages exist once they are written.
    host.bytes.fill_(1)
    streams = streams_of(device)
    link = link_limit(device, host.bytes, streams, _GPU_REPEATS)
    bench = Bench(flags, device, pool, host.bytes, streams, link, DecodeLoad(device) if on_gpu else None)
    report = {
        "format": FORMAT,
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": "python -m bench_swap " + " ".join(_shown(argv)),
        "machine": _machine(),
        "device": _device(device),
        "meaningful": on_gpu,
        "link": {"out_gb_per_s": link.out_gb_per_s, "in_gb_per_s": link.in_gb_per_s},
        "decode": bench.beside_plain_copy(),
        "left_out": bench.missing,
    }
    found: list[dict[str, Any]] = []
    for case in all_cases(flags.quick) if on_gpu else cpu_cases():
        if not _wanted(case, flags):
            continue
        if time.perf_counter() - _STARTED_S > flags.seconds:
            _say(f"Stopped after {flags.seconds} s: {case.name} and what follows are not measured.")
            break
        for figures in bench.measure(case):
            found.append(figures)
            _say(_line(figures))
        if flags.json:
            flags.json.write_text(_as_json(report, found))
    host.close()
    return 0 if all(case["exact"] for case in found) else 1


def _measured(case: Case, method: Method, measure: Measure, link: Link) -> Iterator[dict[str, Any]]:
    layers = method.layers
    calls = scattered(layers.num_blocks, case.calls, case.plan.blocks(case.tokens), seed=case.tokens)
    exact = measure.exact(method, calls)
    size = case.calls * len(calls[0]) * layers.block_bytes
    for direction, limit in (("out", link.out_gb_per_s), ("in", link.in_gb_per_s)):
        figures = (
            measure.out(method, calls, case.plan.block_tokens) if direction == "out" else measure.back(method, calls)
        )
        moved_ms = figures.get("filled_before_ms", figures["done_ms"])
        gb_per_s = size / moved_ms / 1e6
        yield {
            "shape": case.plan.model,
            "layout": case.plan.layout,
            "block_tokens": case.plan.block_tokens,
            "tokens": case.tokens,
            "calls": case.calls,
            "bytes": size,
            "pieces_per_block": sum(len(group.offsets_bytes) for group in layers.groups),
            "direction": direction,
            "method": method.name,
            **figures,
            "gb_per_s": gb_per_s,
            "link_share": gb_per_s / limit,
            "exact": exact,
        }


def _line(figures: dict[str, Any]) -> str:
    slowdown = figures["decode_slowdown"]
    calls = f" x{figures['calls']}" if figures["calls"] > 1 else ""
    shape = f"{figures['shape']} {figures['layout']}/{figures['block_tokens']} {figures['tokens']}{calls}"
    return (
        f"{shape:38} {figures['direction']:3} {figures['method']:24} compute {figures['compute_stream_ms']:8.3f} ms"
        f" (busy {figures.get('compute_stream_busy_ms', float('nan')):8.3f})  done {figures['done_ms']:8.3f} ms"
        f"  {figures['gb_per_s']:6.2f} GB/s = {figures['link_share']:6.1%}"
        f"  decode {'-' if slowdown is None else format(slowdown, '+.1%')}  {'exact' if figures['exact'] else 'WRONG'}"
    )


def _as_json(report: dict[str, Any], cases: Sequence[dict[str, Any]]) -> str:
    """A line for each case."""
    head = json.dumps(report, indent=1).removesuffix("\n}")
    return head + ',\n "cases": [\n  ' + ",\n  ".join(json.dumps(case) for case in cases) + "\n ]\n}\n"


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201


def _machine() -> dict[str, Any]:
    cpu = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _device(device: Any) -> dict[str, Any]:
    versions = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": _version("triton"),
        "vllm": _version("vllm"),
    }
    if device.type != "cuda":
        return {"name": "cpu", **versions}
    query = "--query-gpu=driver_version,pcie.link.gen.max,pcie.link.width.max"
    found = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, check=False
    ).stdout.strip()
    driver, generation, width = ([part.strip() for part in found.split(",")] + ["", "", ""])[:3]
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "driver": driver,
        "pcie": f"generation {generation}, {width} lanes",
        **versions,
    }


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _wanted(case: Case, flags: argparse.Namespace) -> bool:
    return (not flags.models or case.plan.model in flags.models) and (not flags.tokens or case.tokens in flags.tokens)


def _shown(argv: Sequence[str]) -> list[str]:
    """Without the file's folder, which says nothing."""
    return [Path(one).name if index > 0 and argv[index - 1] == "--json" else one for index, one in enumerate(argv)]


def _flags(argv: Sequence[str]) -> argparse.Namespace:
    description, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="bench_swap", description=description, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="8,192 tokens, and 16 calls of 2,048")
    parser.add_argument("--models", type=_names(MODELS), default=[], help=", ".join(MODELS))
    parser.add_argument("--methods", type=_names(METHODS), default=[], help=", ".join(METHODS))
    parser.add_argument(
        "--tokens", type=lambda text: [int(one) for one in text.split(",")], default=[], help="only these"
    )
    parser.add_argument(
        "--repeats", type=int, help="of each measurement; half as many for large ones (7; without a GPU 1)"
    )
    parser.add_argument("--ring-mib", type=int, default=1024, help="device memory for staging, each way")
    parser.add_argument("--seconds", type=int, default=1800, help="start no case after so long")
    return parser.parse_args(argv)


def _names(known: Any) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
