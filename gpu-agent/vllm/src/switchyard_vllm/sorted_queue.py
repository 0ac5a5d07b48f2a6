"""vLLM's priority queue with its list kept sorted, so that a request is found by a search.

A sorted list is a heap, and the order is vLLM's own (`Request.__lt__`): what vLLM does with the queue gives the same. In a
heap a request whose priority changes has to be looked for among all, and thousands may wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any

from vllm.v1.core.sched.request_queue import PriorityRequestQueue


class SortedRequestQueue(PriorityRequestQueue):
    #: vLLM's.
    _heap: list[Any]

    def add_request(self, request: Any) -> None:
        insort(self._heap, request)

    def pop_request(self) -> Any:
        if not self._heap:
            raise IndexError("pop from an empty queue")
        return self._heap.pop(0)

    def remove_request(self, request: Any) -> None:
        if not self.take(request):
            raise ValueError("The request is not in the queue.")

    def remove_requests(self, requests: Iterable[Any]) -> None:
        gone = set(requests)
        self._heap = [request for request in self._heap if request not in gone]

    def take(self, request: Any) -> bool:
        """Removes the request, whose priority is the one that it was added with. False: it is not in the queue."""
        heap = self._heap
        index = bisect_left(heap, request)
        if index == len(heap) or heap[index] is not request:
            return False
        del heap[index]
        return True

    def sort(self) -> None:
        """Priorities have changed in place."""
        self._heap.sort()
