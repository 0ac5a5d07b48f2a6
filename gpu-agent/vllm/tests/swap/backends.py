"""The copy backends that can run here."""

from switchyard_vllm.swap.copy_backend import BackendUnavailableError, CopyBackend, copy_backend
from switchyard_vllm.swap.kv_layers import KvLayers

from .layouts import DEVICE, KvCache, KvShape


def _runs(name: str) -> bool:
    try:
        copy_backend(name, KvLayers.of(KvCache(KvShape()).tensors, KvShape().blocks))
    except BackendUnavailableError:
        return False
    return True


BACKENDS = [name for name in ("torch", "triton", "vllm") if _runs(name)]


def backend_of(name: str, cache: KvCache) -> CopyBackend:
    return copy_backend(name, KvLayers.of(cache.tensors, cache.shape.blocks))


__all__ = ["BACKENDS", "DEVICE", "backend_of"]
