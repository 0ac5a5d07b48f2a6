"""What vLLM waits for before it admits a call (a grammar that is compiled elsewhere, KV that comes from another machine), and
a policy whose ranks a test gives."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata, SupportsHMA
from vllm.v1.outputs import KVConnectorOutput

from switchyard_vllm.order.policies.fcfs import Fcfs
from switchyard_vllm.order.policy import Place, PolicyCall

from .harness import Engine


class Indexed(Fcfs):
    """A policy that ranks programs by numbers of any size."""

    def __init__(self, ranks: dict[str, float]) -> None:
        super().__init__("program")
        self._ranks = ranks

    def arrive(self, call: PolicyCall, now_us: int) -> Place:
        return Place(self._ranks[call.program.program.removeprefix("t/")])

    def yields_to(self, worst: Place, best: Place) -> bool:
        return best.rank < worst.rank


class Grammar:
    """Accepts any token."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        return True


class NoKv(KVConnectorBase_V1, SupportsHMA):
    """A connector that has the KV of no call."""

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        assert num_external_tokens == 0

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        return KVConnectorMetadata()

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        return False, None

    # The worker's half is never asked.

    def start_load_kv(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def wait_for_layer_load(self, layer_name: str) -> None:
        raise NotImplementedError

    def save_kv_layer(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def wait_for_save(self) -> None:
        raise NotImplementedError


class RemoteKv(KVConnectorBase_V1):
    """The scheduler's half of a KV connector: the named calls load all but their last token from elsewhere."""

    def __init__(self, engine: Engine, names: set[str]) -> None:
        self._scheduler = engine.scheduler
        self._names = names
        self._scheduler.connector = self

    def arrived(self, name: str) -> None:
        self._scheduler._update_from_kv_xfer_finished(KVConnectorOutput(finished_recving={name}))

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        if request.request_id in self._names and request.num_preemptions == 0:
            return request.num_tokens - 1 - num_computed_tokens, True
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        return None

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        return (0,)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        return KVConnectorMetadata()

    # The worker's half is never asked.

    def start_load_kv(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def wait_for_layer_load(self, layer_name: str) -> None:
        raise NotImplementedError

    def save_kv_layer(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def wait_for_save(self) -> None:
        raise NotImplementedError
