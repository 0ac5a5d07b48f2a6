"""The channel between an engine and the agent that fronts it: one Unix socket, JSON lines, both ways, versioned.

Engine → agent: `hello` when an agent connects, `record` for every ended call, `charges` of open ones, `status` once a second,
`applied` or `refused` for each change of options, `positions` for each question. Agent → engine: `hello`, `ack` of records up
to a number, `options`, `classes` (what is known about classes of programs), `handle` (what becomes of a program's KV:
`discard`, since it goes on at another engine), `positions` (where are these leases in the order?). An engine that takes the
last three says `classes`, `handle` and `positions` in its hello.

A record is kept until it is acknowledged and is sent again on the next connection, so an agent that crashed loses none;
the number and the engine's `epoch` tell the next agent which it has. One agent at a time: a later connection replaces the
earlier, whose process may hang. This account alone can connect.

Charges are cumulative and not acknowledged: they are sent while they change, all of them on a new connection. What a
message says of a lease comes before the lease's last record, never after it.

It runs on a thread of its own and shares with the scheduler only what `RecordBuffer` and `Mailbox` lock.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from uuid import uuid4

from .identity import is_id
from .mailbox import Mailbox, Message
from .open_charges import NO_SUMS, Sums
from .records import RecordBuffer

PROTOCOL_VERSION = 1
#: A longer line from the agent ends its connection.
LINE_BYTES_MAX = 1 << 20
#: Read at a time.
READ_BYTES = 65_536
#: Bytes on their way to the agent before no further records are added: an agent that does not read must not fill the memory.
OUTGOING_BYTES_MAX = 1 << 20
RECORDS_PER_TURN_MAX = 256
#: Leases in one message. Of more, there are several.
CHARGES_PER_MESSAGE_MAX = 1024
#: Leases that one question names.
POSITIONS_MAX = 128
CHARGES_INTERVAL_S = 0.2
STATUS_INTERVAL_S = 1.0
#: How soon an ended call's record goes out.
TURN_S = 0.02
JOIN_TIMEOUT_S = 5.0

logger = logging.getLogger("vllm.switchyard")


class SideChannel:
    def __init__(self, path: str, records: RecordBuffer, mailbox: Mailbox, hello: Message) -> None:
        self.path = path
        self.epoch = uuid4().hex
        self._records = records
        self._mailbox = mailbox
        self._hello = hello
        self._stopping = False
        self._agent: Agent | None = None
        self._selector = selectors.DefaultSelector()
        self._listener = listen(path)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = Thread(target=self._run, name="switchyard-side-channel", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)
        with suppress(FileNotFoundError):
            Path(self.path).unlink()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception:
            # The engine serves without an agent; the agent sees its connection end.
            logger.exception("switchyard: the side channel failed and is closed")
        finally:
            self._drop_agent()
            self._listener.close()
            self._selector.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(TURN_S):
            if key.fileobj is self._listener:
                self._accept()
            elif self._agent is not None and not self._agent.read(self._heard):
                self._drop_agent()
        agent = self._agent
        if agent is None:
            return
        if agent.outgoing_bytes < OUTGOING_BYTES_MAX:
            # Before the records: a call that is charged here has not left one yet.
            if agent.charges_due():
                agent.say_charges(self._mailbox.charges())
            for number, record in self._records.after(agent.sent, RECORDS_PER_TURN_MAX):
                agent.say({"type": "record", "number": number, **record.as_dict()})
                agent.sent = number
        for verdict in self._mailbox.answers():
            agent.say(verdict)
        if agent.status_due():
            dropped = {"records_dropped": self._records.dropped, "records_waiting": len(self._records)}
            agent.say({"type": "status", **self._mailbox.status(), **dropped})
        if not agent.write():
            self._drop_agent()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._drop_agent()
        connection.setblocking(False)
        self._agent = Agent(connection)
        self._mailbox.heard = True
        self._selector.register(connection, selectors.EVENT_READ)
        who = {"v": PROTOCOL_VERSION, "epoch": self.epoch, "pid": os.getpid()}
        takes = {"classes": True, "handle": True, "positions": True}
        self._agent.say(
            {"type": "hello", **who, **takes, **self._hello, "policy": self._mailbox.status().get("policy")}
        )

    def _drop_agent(self) -> None:
        if self._agent is None:
            return
        self._selector.unregister(self._agent.connection)
        self._agent.connection.close()
        self._agent = None
        self._mailbox.heard = False

    def _heard(self, message: Message) -> bool:
        """False: the agent does not speak this protocol."""
        number = message.get("number")
        match message.get("type"):
            case "hello":
                return message.get("v") == PROTOCOL_VERSION
            case "ack" if isinstance(number, int):
                self._records.acknowledge(number)
                return True
            case "options" if isinstance(number, int) and isinstance(message.get("options"), dict):
                self._mailbox.ask(number, message["options"])
                return True
            case "classes":
                return self._mailbox.classes.take(message.get("classes"))
            case "handle" if message.get("handling") == "discard" and is_id(message.get("program")):
                self._mailbox.leave(message["program"])
                return True
            case "positions" if isinstance(number, int) and _are_leases(message.get("leases")):
                self._mailbox.ask_positions(number, message["leases"])
                return True
        return False


class Agent:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        #: The last record that was sent over this connection.
        self.sent = 0
        self._incoming = b""
        self._outgoing = bytearray()
        self._status_at_s = -STATUS_INTERVAL_S
        self._charges_at_s = -CHARGES_INTERVAL_S
        #: What it was told last of each lease that has open calls.
        self._told: dict[str, Sums] = {}

    @property
    def outgoing_bytes(self) -> int:
        return len(self._outgoing)

    def say(self, message: Message) -> None:
        self._outgoing += json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def status_due(self) -> bool:
        now_s = monotonic()
        if now_s - self._status_at_s < STATUS_INTERVAL_S or self.outgoing_bytes >= OUTGOING_BYTES_MAX:
            return False
        self._status_at_s = now_s
        return True

    def charges_due(self) -> bool:
        return monotonic() - self._charges_at_s >= CHARGES_INTERVAL_S

    def say_charges(self, charges: dict[str, Sums]) -> None:
        """`charges`: of every lease that has an open call. Those that changed since the last time are said."""
        changed = [(lease, *sums) for lease, sums in charges.items() if self._told.get(lease, NO_SUMS) != sums]
        self._told = charges
        if not changed:
            return
        self._charges_at_s = monotonic()
        for begin in range(0, len(changed), CHARGES_PER_MESSAGE_MAX):
            self.say({"type": "charges", "leases": changed[begin : begin + CHARGES_PER_MESSAGE_MAX]})

    def write(self) -> bool:
        """False: the agent has gone."""
        try:
            while self._outgoing:
                sent = self.connection.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def read(self, heard: Callable[[Message], bool]) -> bool:
        """False: the agent has gone, or says what cannot be understood."""
        try:
            received = self.connection.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not received:
            return False
        *lines, self._incoming = (self._incoming + received).split(b"\n")
        return all(_understood(line, heard) for line in lines) and len(self._incoming) <= LINE_BYTES_MAX


def _are_leases(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= POSITIONS_MAX and all(is_id(lease) for lease in value)


def _understood(line: bytes, heard: Callable[[Message], bool]) -> bool:
    try:
        message = json.loads(line) if len(line) <= LINE_BYTES_MAX else None
    except ValueError:
        message = None
    if isinstance(message, dict) and heard(message):
        return True
    logger.warning("switchyard: an agent said what this protocol has no meaning for, and is disconnected")
    return False


def listen(path: str) -> socket.socket:
    """A socket that only this account can connect to. What a dead engine left under the path is removed; no other file is."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(f"{path} is there and is no socket")
        if _answers(path):
            raise OSError(f"another engine listens on {path}")
        Path(path).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(4)
    listener.setblocking(False)
    return listener


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
