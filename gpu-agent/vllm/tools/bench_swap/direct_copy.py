"""Copies without staging, one descriptor for each piece of each block: a loop of `cudaMemcpyAsync`, and `cuMemcpyBatchAsync`.

The loop is compiled C, since a loop in Python would measure Python. The batch copy is called as in vLLM's `swap_blocks_batch`:
one attribute for all, source read in stream order.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from ctypes.util import find_library
from pathlib import Path
from typing import Any

_LOOP_C = """
#include <stddef.h>
typedef int (*copy_fn)(void *, const void *, size_t, int, void *);
int copy_loop(copy_fn copy, void **to, void **from, size_t *sizes, size_t count, void *stream) {
  for (size_t i = 0; i < count; i++) {
    int error = copy(to[i], from[i], sizes[i], 4 /* cudaMemcpyDefault */, stream);
    if (error) return error;
  }
  return 0;
}
"""
_SOURCE_IN_STREAM_ORDER = 1


class NotHere(RuntimeError):  # noqa: N818
    """This way of copying cannot be measured on this machine."""


class _Attributes(ctypes.Structure):
    _fields_ = [
        ("src_access_order", ctypes.c_int),
        ("src_type", ctypes.c_int),
        ("src_id", ctypes.c_int),
        ("dst_type", ctypes.c_int),
        ("dst_id", ctypes.c_int),
        ("flags", ctypes.c_uint),
    ]


class BatchCopy:
    def __init__(self) -> None:
        try:
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NotHere("There is no CUDA driver.") from error
        # CUDA 13 dropped the index of the copy that failed.
        self._has_fail_index = not hasattr(driver, "cuMemcpyBatchAsync_v2")
        name = "cuMemcpyBatchAsync" if self._has_fail_index else "cuMemcpyBatchAsync_v2"
        if not hasattr(driver, name):
            raise NotHere("The CUDA driver has no batch copy: it came with CUDA 12.8.")
        self._copy = getattr(driver, name)
        self._copy.restype = ctypes.c_int

    def __call__(self, to: Any, from_: Any, sizes: Any, stream: Any) -> None:
        attributes = _Attributes(_SOURCE_IN_STREAM_ORDER)
        first = ctypes.c_size_t(0)
        failed = [ctypes.byref(ctypes.c_size_t(0))] if self._has_fail_index else []
        error = self._copy(
            *(ctypes.c_void_p(part.data_ptr()) for part in (to, from_, sizes)),
            ctypes.c_size_t(to.numel()),
            ctypes.byref(attributes),
            ctypes.byref(first),
            ctypes.c_size_t(1),
            *failed,
            ctypes.c_void_p(stream.cuda_stream),
        )
        if error != 0:
            raise RuntimeError(f"cuMemcpyBatchAsync of {to.numel()} copies failed with error {error}.")


class LoopCopy:
    def __init__(self) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise NotHere("There is no C compiler.")
        folder = Path(tempfile.mkdtemp(prefix="bench-swap-"))
        source = folder / "copy_loop.c"
        source.write_text(_LOOP_C)
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", f"{folder}/copy_loop.so", f"{source}"], check=True)
        self._loop = ctypes.CDLL(f"{folder}/copy_loop.so").copy_loop
        self._loop.restype = ctypes.c_int
        shutil.rmtree(folder)
        self._copy = ctypes.cast(_runtime().cudaMemcpyAsync, ctypes.c_void_p)

    def __call__(self, to: Any, from_: Any, sizes: Any, stream: Any) -> None:
        error = self._loop(
            self._copy,
            *(ctypes.c_void_p(part.data_ptr()) for part in (to, from_, sizes)),
            ctypes.c_size_t(to.numel()),
            ctypes.c_void_p(stream.cuda_stream),
        )
        if error != 0:
            raise RuntimeError(f"cudaMemcpyAsync failed with error {error}.")


def _runtime() -> Any:
    """The CUDA runtime that torch has loaded already, so that both share a context."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libcudart.so" in path:
            return ctypes.CDLL(path)
    found = find_library("cudart")
    if found is None:
        raise NotHere("There is no CUDA runtime library.")
    return ctypes.CDLL(found)
