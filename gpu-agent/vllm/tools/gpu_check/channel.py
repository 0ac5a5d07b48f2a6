"""The side channel of the plug-in, as far as this check needs it: records and status are read, the policy is changed."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from threading import Event, Thread
from typing import Any

ANSWER_TIMEOUT_S = 60.0
CLASSES_PER_MESSAGE_MAX = 4


class Channel(Thread):
    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.records: list[dict[str, Any]] = []
        #: The latest.
        self.status: dict[str, Any] = {}
        #: Calls that waited, at each status.
        self.waiting: list[int] = []
        self._verdict: dict[str, Any] = {}
        self._answered = Event()
        self._asked = 0
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(path)
        self._say({"type": "hello", "v": 1})
        self.start()

    def run(self) -> None:
        for line in self._connection.makefile("r"):
            message = json.loads(line)
            kind = message.get("type")
            if kind == "record":
                self.records.append(message)
                self._say({"type": "ack", "number": message["number"]})
            elif kind == "status":
                self.status = message
                self.waiting.append(message["waiting"])
            elif kind in ("applied", "refused") and message.get("number") == self._asked:
                self._verdict = message
                self._answered.set()

    def ask(self, options: dict[str, Any]) -> None:
        """From the next step on. `verdict` says whether it was taken."""
        self._answered.clear()
        self._asked += 1
        self._say({"type": "options", "number": self._asked, "options": options})

    def verdict(self) -> None:
        """Raises unless the last wish was applied: a figure under another policy's name is worse than none."""
        if not self._answered.wait(ANSWER_TIMEOUT_S):
            raise TimeoutError("the plug-in does not say whether it has taken another policy")
        if self._verdict["type"] == "refused":
            raise ValueError(f"the plug-in refused a policy: {self._verdict.get('reason')}")

    def tell_classes(self, classes: Sequence[dict[str, Any]]) -> None:
        for begin in range(0, len(classes), CLASSES_PER_MESSAGE_MAX):
            self._say({"type": "classes", "classes": list(classes[begin : begin + CLASSES_PER_MESSAGE_MAX])})

    def ended(self, program: str) -> None:
        """What is kept for it is of no use."""
        self._say({"type": "handle", "handling": "discard", "program": program})

    def wait_until_idle(self) -> None:
        """Until a status comes in which no call is open: the plug-in renews it when the last one ends."""
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        seen = len(self.waiting)
        while len(self.waiting) == seen or self.status["waiting"] + self.status["running"] > 0:
            if time.monotonic() > until_s:
                raise TimeoutError("the plug-in says that calls are open, though all have ended")
            time.sleep(0.02)

    def close(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self.join(ANSWER_TIMEOUT_S)
        self._connection.close()

    def _say(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")
