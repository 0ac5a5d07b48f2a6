"""The scheduler as another process steps it: every call ends with its tokens, on the caller's clock."""

from typing import Any

from switchyard_vllm.records import RECORD_VERSION

from .loads import ticket
from .step_server import StepServer

STEP_US = 1000


def test_the_caller_steps_it_and_says_how_long_a_step_lasts() -> None:
    setting = {"seats": 1, "blocks": 40, "block_tokens": 16, "switchyard": {"policy": "plas", "quantum_s": 0.01}}
    server = StepServer(setting)
    long = {"name": "long", "prompt": list(range(3, 53)), "output": 30, "xargs": ticket("long", service_us=10**9)}
    short = {"name": "short", "prompt": [5, 6, 7], "output": 2, "xargs": ticket("short")}
    coming: dict[int, list[dict[str, Any]]] = {0: [long], 4: [short]}
    ended: list[dict[str, Any]] = []
    work: list[list[list[Any]]] = []
    for step in range(40):
        calls = coming.get(step, [])
        work.append(server.answer({"do": "schedule", "now_us": step * STEP_US, "calls": calls})["work"])
        ended += server.answer({"do": "update", "now_us": (step + 1) * STEP_US})["ended"]
        if len(ended) == 2:
            break
    assert work[0] == [["long", 0, 50, True]]
    assert work[1] == [["long", 50, 51, True]]
    # Of what the preempted call had computed its full blocks are cached.
    assert work[4:7] == [[["short", 0, 3, True]], [["short", 3, 4, True]], [["long", 48, 54, True]]]
    assert [(one["request_id"], one["output_tokens"], one["preemptions"]) for one in ended] == [
        ("short", 2, 0),
        ("long", 30, 1),
    ]
    assert ended[0]["v"] == RECORD_VERSION
    assert ended[1]["service_wall_us"] == 30 * STEP_US
    assert ended[1]["wait_us"] == 2 * STEP_US
