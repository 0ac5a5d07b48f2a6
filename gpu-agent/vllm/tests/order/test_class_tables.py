"""What an agent tells about classes of programs: read whole or not at all, and bounded."""

import copy
import json
from typing import Any

import pytest

from switchyard_vllm.order.call_state import Call, Measurement
from switchyard_vllm.order.class_tables import (
    ANY_CLASS,
    CLASSES_MAX,
    CLASSES_PER_MESSAGE_MAX,
    ClassTables,
)
from switchyard_vllm.order.index_table import (
    FIGURE_MAX,
    LINES_PER_STEP_MAX,
    STEPS_MAX,
    TOKENS_MAX,
    IndexStep,
    IndexTable,
)
from switchyard_vllm.order.policies import create_policy
from switchyard_vllm.order.policy import Outlook
from switchyard_vllm.order.program_order import ProgramOrder
from switchyard_vllm.order.seating import SeatingConfig
from switchyard_vllm.order.tenant_shares import TenantShares
from switchyard_vllm.records import CallRecord


def told(name: str = "app:x", tenant: str = "a", remaining_tokens: float = 10.5) -> dict[str, Any]:
    first = {"from_tokens": 0, "lines": [[1, 2.5], [3, 0.5]], "remaining_tokens": remaining_tokens}
    then = {"from_tokens": 4, "lines": [[2, 1]], "remaining_tokens": 0, "median_tokens": 9}
    steps = [{**first, "median_tokens": 8}, then]
    table = {"steps": steps, "prompt_tokens_per_output_token": 1.5, "call_tokens": 3, "call_share": 0.5}
    return {"tenant": tenant, "class": name, "objective": "token_latency", "table": table}


TABLE = IndexTable(
    (IndexStep(0, ((1.0, 2.5), (3.0, 0.5)), 10.5, 8.0), IndexStep(4, ((2.0, 1.0),), 0.0, 9.0)),
    prompt_tokens_per_output_token=1.5,
    call_tokens=3.0,
    call_share=0.5,
)


def test_a_table_is_of_one_tenant_class_and_objective() -> None:
    tables = ClassTables()
    assert tables.take([told()])
    assert tables.table_of("a", "app:x", "token_latency") == TABLE
    for other in (("b", "app:x", "token_latency"), ("a", "app:y", "token_latency"), ("a", "app:x", "response")):
        assert tables.table_of(*other) is None


def test_a_class_of_which_nothing_is_known_has_the_table_of_its_tenant() -> None:
    tables = ClassTables()
    assert tables.take([told("app:x"), told(ANY_CLASS, remaining_tokens=3)])
    assert tables.table_of("a", "app:x", "token_latency") == TABLE
    other = tables.table_of("a", "app:y", "token_latency")
    assert other is not None
    assert other.steps[0].remaining_tokens == 3
    assert tables.table_of("b", "app:y", "token_latency") is None
    assert tables.table_of("a", "app:y", "response") is None
    assert tables.take([told("app:y")])
    assert tables.table_of("a", "app:y", "token_latency") == TABLE


def test_the_latest_word_counts() -> None:
    tables = ClassTables()
    assert tables.take([told(), told(remaining_tokens=3)])
    table = tables.table_of("a", "app:x", "token_latency")
    assert table is not None
    assert table.steps[0].remaining_tokens == 3
    assert len(tables) == 1


def test_of_more_classes_the_one_told_longest_ago_is_forgotten() -> None:
    tables = ClassTables()
    for index in range(CLASSES_MAX):
        assert tables.take([told(f"{index}")])
    assert tables.take([told("0"), told("one more")])
    assert len(tables) == CLASSES_MAX
    known = [tables.table_of("a", name, "token_latency") is not None for name in ("0", "1", "one more")]
    assert known == [True, False, True]


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """`value` None: the field is left out."""
    whole: Any = copy.deepcopy(told())
    at = whole
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return dict(whole)


STEP = {"from_tokens": 0, "lines": [[1, 1]], "remaining_tokens": 1, "median_tokens": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        "classes",
        7,
        changed(("tenant",), ""),
        changed(("tenant",), "x" * 129),
        changed(("class",), 5),
        changed(("objective",), "fairness"),
        changed(("objective",), []),
        changed(("table",), []),
        changed(("table", "steps"), []),
        changed(("table", "steps"), None),
        changed(("table", "steps"), [{**STEP, "from_tokens": index} for index in range(STEPS_MAX + 1)]),
        changed(("table", "steps", 0, "from_tokens"), 1),
        changed(("table", "steps", 0, "from_tokens"), True),
        changed(("table", "steps", 1, "from_tokens"), 0),
        changed(("table", "steps", 0, "lines"), [[1, 1]] * (LINES_PER_STEP_MAX + 1)),
        changed(("table", "steps", 0, "lines"), []),
        changed(("table", "steps", 0, "lines", 0), [1]),
        changed(("table", "steps", 0, "lines", 0), [1, -1]),
        # An index of 0 has no rank, and neither has one beyond every number.
        changed(("table", "steps", 0, "lines", 0), [0, 1]),
        changed(("table", "steps", 0, "lines", 0), [1, 0]),
        changed(("table", "steps", 0, "lines", 0), [FIGURE_MAX * 2, 1]),
        changed(("table", "steps", 0, "lines", 0), [1, "1"]),
        changed(("table", "steps", 0, "lines", 0), [1, json.loads("NaN")]),
        changed(("table", "steps", 0, "lines", 0), [1, json.loads("Infinity")]),
        changed(("table", "steps", 0, "remaining_tokens"), None),
        changed(("table", "steps", 0, "median_tokens"), None),
        # No wait would be long beside it.
        changed(("table", "steps", 0, "median_tokens"), 0),
        changed(("table", "steps", 1, "from_tokens"), TOKENS_MAX + 1),
        changed(("table", "prompt_tokens_per_output_token"), -1),
        changed(("table", "prompt_tokens_per_output_token"), FIGURE_MAX * 2),
        changed(("table", "call_tokens"), None),
        changed(("table", "call_tokens"), -1),
        changed(("table", "call_tokens"), TOKENS_MAX + 1),
        changed(("table", "call_share"), None),
        changed(("table", "call_share"), -0.1),
        changed(("table", "call_share"), 1.1),
    ],
)
def test_what_is_wrong_is_refused_with_all_that_comes_with_it(wrong: object) -> None:
    tables = ClassTables()
    assert not tables.take([told("good"), wrong])
    assert len(tables) == 0


def test_figures_at_their_bounds_are_taken() -> None:
    for path, value in (
        (("table", "call_tokens"), TOKENS_MAX),
        (("table", "call_share"), 1),
        (("table", "steps", 1, "from_tokens"), TOKENS_MAX),
        (("table", "steps", 0, "lines", 0), [FIGURE_MAX, 1 / FIGURE_MAX]),
        (("table", "prompt_tokens_per_output_token"), 0),
    ):
        assert ClassTables().take([changed(path, value)])


def test_a_message_is_bounded() -> None:
    tables = ClassTables()
    assert tables.take([told(f"{index}") for index in range(CLASSES_PER_MESSAGE_MAX)])
    assert not tables.take([told(f"{index}") for index in range(CLASSES_PER_MESSAGE_MAX + 1)])
    assert not tables.take({"classes": []})
    assert tables.take([])


def order_of(policy: str, tables: ClassTables) -> ProgramOrder:
    return ProgramOrder(SeatingConfig(seats=1), create_policy(policy, classes=tables), TenantShares())


def call(program_class: str, program_output_tokens: int) -> Call:
    return Call("lease", "a", 1, "program", 0, 0, 0, 10, 0, program_output_tokens, program_class)


def test_an_order_that_learns_says_what_it_knew_of_a_call_when_it_came() -> None:
    tables = ClassTables()
    tables.take([told(remaining_tokens=90)])
    order = order_of("learned", tables)
    state = order.arrive(call("app:x", 0), 0)
    # Of the three tokens that a call has, half, rounded down, and 90 beyond.
    assert order.outlook(state) == Outlook(state.place.rank, 91)
    unknown = order_of("learned", tables)
    outlook = unknown.outlook(unknown.arrive(call("app:y", 0), 0))
    assert outlook is not None
    assert outlook.expected_remaining_tokens != 93


def test_an_order_by_levels_says_the_level_and_one_by_arrival_nothing() -> None:
    order = order_of("plas", ClassTables())
    outlook = order.outlook(order.arrive(call("app:x", 0), 0))
    assert outlook is not None
    assert outlook.known() == {"rank": 0}
    order = order_of("fcfs", ClassTables())
    assert order.outlook(order.arrive(call("app:x", 0), 0)) is None


def test_a_record_has_what_was_known_and_nothing_where_nothing_was() -> None:
    measurement = Measurement(1, 0, 1, 5, 5, 0, 0, 0, 0, 0, 0, 5, 5)
    own = ("request", None, "", "", None, "stop", 2, measurement)
    known = CallRecord(*own, Outlook(-4, 93)).as_dict()  # type: ignore[arg-type]
    assert (known["rank"], known["expected_remaining_tokens"]) == (-4, 93)
    assert "outlook" not in known
    assert known.keys() - CallRecord(*own).as_dict().keys() == {"rank", "expected_remaining_tokens"}  # type: ignore[arg-type]
