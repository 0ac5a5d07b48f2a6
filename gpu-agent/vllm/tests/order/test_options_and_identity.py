"""What operators and tickets may say: each bound at it and one past it, and every refusal with its reason."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from switchyard_vllm import identity
from switchyard_vllm.handling.waste import ToolChance
from switchyard_vllm.identity import FORECAST_CHARS_MAX, ID_CHARS_MAX, Identity, ProgramTold, identity_of
from switchyard_vllm.options import ENVIRONMENT, Options, OptionsError, change_options, operators_options, read_options
from switchyard_vllm.order.call_state import Call, Measurement
from switchyard_vllm.order.forecast import CallForecast
from switchyard_vllm.order.program_order import SERVICE_US_MAX, ProgramOrder
from switchyard_vllm.order.seating import SeatingConfig
from switchyard_vllm.order.tenant_shares import TenantShares
from switchyard_vllm.records import CallRecord, RecordBuffer

TICKET: dict[str, Any] = {
    "switchyard_lease": "l",
    "switchyard_tenant": "t",
    "switchyard_weight": 2,
    "switchyard_program": "t/p",
    "switchyard_class": "c",
    "switchyard_objective": "response",
    "switchyard_service_us": 30,
    "switchyard_path_us": 20.0,
    "switchyard_wait_us": 10,
}


def read(**section: Any) -> Options:
    return read_options({"switchyard": section})


def test_without_options_it_is_plas_with_the_engines_defaults() -> None:
    for config in ({}, None, {"another": 1}):
        assert read_options(config) == Options()
    assert Options().create_policy().name == "plas"


@pytest.mark.parametrize(
    ("section", "level"),
    [
        # Three eighths of 200 prompt tokens at 72 and 10 us; levels of 5, 7, 9.8 ms.
        ({}, 1),
        ({"prefill_us_per_token": 10}, 0),
        # And in levels of 200, 280 ms.
        ({"ordering": "wall"}, 0),
        ({"ordering": "wall", "prefill_us_per_token": 5_200}, 1),
    ],
)
def test_a_prompt_counts_for_what_computing_it_costs(section: dict[str, Any], level: int) -> None:
    policy = read(**section).create_policy()
    program = SimpleNamespace(service_us=0, path_us=0)
    weighed = SimpleNamespace(program_weight=1.0)
    call = SimpleNamespace(call=weighed, prompt_tokens=200, resident_tokens=0, program=program)
    assert policy.arrive(call, 0).rank == level


def test_every_option_arrives_where_it_belongs() -> None:
    options = read(
        policy="atlas",
        ordering="wall",
        quantum_s=0.5,
        levels=6,
        quantum_ratio=3,
        beta=7,
        steps_per_decision=4,
        preemption_levels_min=1,
        preemptions_per_decision_max=2,
        standby="resident_first",
        identity="session",
        report_in_body=False,
    )
    expected = {"first_quantum_us": 500_000, "levels": 6, "quantum_ratio": 3, "promotion_ratio": 7}
    assert options.parameters == {**expected, "preemption_levels_min": 1}
    seating = options.seating(9)
    assert (seating.seats, seating.steps_per_decision, seating.preemptions_max) == (9, 4, 2)
    assert seating.standby == "resident_first"
    assert read().seating(9).standby == "in_order"
    assert read(policy="mlfq", ties="program").create_policy().ties == "program"
    assert read(policy="rr", quantum_s=0.2).parameters == {"quantum_us": 200_000}
    learned = read(policy="learned", objective="response", age_octaves=32, age_scale=0.5)
    assert learned.parameters == {"objective": "response", "age_octaves": 32, "age_scale": 0.5}


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"quantum": 1}, "there is no option 'quantum'; there are age_octaves, age_scale, beta"),
        ({"parameters": {}}, "there is no option 'parameters'"),
        ({"policy": "srpt"}, "policy must be one of fcfs, fcfs-program, mlfq, rr, plas, atlas, learned"),
        ({"levels": 2.5}, "levels must be an integer"),
        ({"levels": True}, "levels must be an integer"),
        ({"levels": 0}, "levels must be an integer from 1 to 64"),
        ({"quantum_s": "1"}, "quantum_s must be a number"),
        ({"quantum_s": 0}, "first_quantum_us must be positive"),
        ({"quantum_s": float("inf")}, "quantum_s must be a number"),
        ({"preemption_levels_min": -1}, "preemption_levels_min must not be negative"),
        ({"ties": "program"}, "policy plas has no parameter"),
        ({"policy": "rr", "ties": "tenant"}, "ties must be one of program, call"),
        ({"policy": "fcfs", "quantum_s": 1}, "policy fcfs has no parameter"),
        ({"standby": "resident"}, "standby must be one of in_order, resident_first"),
        ({"report_in_body": 1}, "report_in_body must be true or false"),
        ({"steps_per_decision": 0}, "at least 1"),
        ({"policy": "learned", "objective": "fairness"}, "objective must be one of token_latency, response"),
        ({"policy": "learned", "age_octaves": 0.5}, "age_octaves must be an integer"),
        ({"policy": "learned", "age_octaves": -1}, "age_octaves must be an integer from 0 to 32"),
        ({"policy": "learned", "age_octaves": 33}, "age_octaves must be an integer from 0 to 32"),
        ({"policy": "learned", "age_scale": 0}, "age_scale must be from 1e-06 to"),
        ({"policy": "learned", "age_scale": 1e7}, "age_scale must be from 1e-06 to"),
        ({"policy": "learned", "levels": 3}, "policy learned has no parameter"),
        ({"objective": "response"}, "policy plas has no parameter"),
        ({"policy": "lamps", "refresh_tokens": 0}, "refresh_tokens must be a positive integer"),
        ({"policy": "lamps", "starvation": "never"}, "starvation must be one of until_completion, at_promotion"),
        ({"policy": "lamps", "handling": ["keep"]}, "handling must be a list of preserve, discard, swap"),
        ({"policy": "lamps", "handling": []}, "handling must be a list of preserve, discard, swap"),
        ({"policy": "plas", "handling": ["swap"]}, "policy plas has no parameter"),
        ({"policy": "infercept", "refresh_tokens": 3}, "policy infercept has no parameter"),
        ({"seat_hold_ms": 5}, "there is no option 'seat_hold_ms'"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_reason(section: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        read(**section)


def test_options_must_be_an_object() -> None:
    with pytest.raises(OptionsError, match="must be a JSON object"):
        read_options({"switchyard": "plas"})


def test_a_whole_ticket_is_read() -> None:
    expected = Identity("l", "t", 2.0, "t/p", "c", "response", ProgramTold(30, 20, 10))
    assert identity_of("session", TICKET, "agent") == expected


def test_a_ticket_says_what_is_open_elsewhere_and_where_the_program_stands() -> None:
    fields = {
        "switchyard_settled_service_us": 40,
        "switchyard_open_elsewhere_us": 5,
        "switchyard_output_tokens": 6,
        "switchyard_opened_at_ms": 7,
        "switchyard_tie": 8,
    }
    expected = Identity("l", "t", 2.0, "t/p", "c", "response", ProgramTold(40, 20, 10, 5, 6), (7, 8))
    assert identity_of("session", {**TICKET, **fields}, "agent") == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"switchyard_tenant": ""},
        {"switchyard_tenant": 3},
        {"switchyard_program": "x" * (ID_CHARS_MAX + 1)},
        {"switchyard_weight": 0},
        {"switchyard_program_weight": 0},
        {"switchyard_program_weight": identity.PROGRAM_WEIGHT_MAX + 1},
        {"switchyard_weight": identity.TENANT_WEIGHT_MAX + 1},
        {"switchyard_weight": float("nan")},
        {"switchyard_service_us": -1},
        {"switchyard_service_us": 1.5},
        {"switchyard_service_us": True},
        {"switchyard_service_us": SERVICE_US_MAX + 1},
        {"switchyard_wait_us": None},
        {"switchyard_settled_service_us": -1},
        {"switchyard_open_elsewhere_us": "1"},
        {"switchyard_output_tokens": -1},
        {"switchyard_objective": "fairness"},
        {"switchyard_objective": ["response"]},
        {"switchyard_tie": 8},
        {"switchyard_offline": "yes"},
        {"switchyard_forecast": "{"},
        {"switchyard_forecast": 7},
        {"switchyard_forecast": "[1, [], 1, 1]"},
        {"switchyard_forecast": "[-1, [], 1]"},
        {"switchyard_forecast": "[1, [], 1.5]"},
        {"switchyard_forecast": "[1, [[0.5, NaN, 1]], 1]"},
        {"switchyard_forecast": "[1, [[0.5, 1]], 1]"},
        {"switchyard_forecast": json.dumps([1, [[0.5, 1, 1]] * 5, 1])},
        {"switchyard_forecast": "[1, [], 1" + " " * FORECAST_CHARS_MAX + "]"},
    ],
)
def test_a_ticket_with_one_wrong_field_is_none(wrong: dict[str, Any]) -> None:
    found = identity_of("s", {**TICKET, **wrong}, "agent")
    assert found == Identity(None, "", 1.0, "session:s", None, malformed=True)


def test_a_forecast_is_read() -> None:
    fields = {"switchyard_forecast": json.dumps([12.5, [[0.5, 2_000_000, 40], [0.25, 90, 0]], 0.5])}
    forecast = identity_of("session", {**TICKET, **fields}, "agent").forecast
    assert forecast == CallForecast(12.5, (ToolChance(0.5, 2_000_000), ToolChance(0.25, 90)), 0.5)
    assert forecast.tool_us == pytest.approx((0.5 * 2_000_000 + 0.25 * 90) / 0.75)
    nothing = {"switchyard_forecast": "[3, [], 1]"}
    last = identity_of("session", {**TICKET, **nothing}, "agent").forecast
    assert last is not None
    assert last.tool_us is None


def test_a_ticket_at_its_bounds_is_read() -> None:
    bounds = {
        "switchyard_program": "x" * ID_CHARS_MAX,
        "switchyard_service_us": SERVICE_US_MAX,
        "switchyard_weight": 1000,
    }
    assert not identity_of(None, {**TICKET, **bounds}, "agent").malformed


def test_a_ticket_of_a_batch_says_so() -> None:
    assert not identity_of(None, TICKET, "agent").offline
    assert identity_of(None, {**TICKET, "switchyard_offline": 1}, "agent").offline
    assert not identity_of(None, {"switchyard_offline": 1}, "session").offline


@pytest.mark.parametrize("session", [None, "", 7, "x" * (ID_CHARS_MAX + 1)])
def test_a_call_without_a_usable_name_is_a_program_of_its_own(session: object) -> None:
    assert identity_of(session, None, "agent").program == ""


def test_a_session_cannot_take_the_name_of_a_program_that_tickets_name() -> None:
    assert identity_of("t/p", TICKET, "session").program == "session:t/p"


def test_records_are_kept_up_to_the_bound_and_the_oldest_goes() -> None:
    buffer = RecordBuffer(records_max=2)
    measurement = Measurement(1, 0, 1, 5, 5, 0, 0, 0, 0, 0, 0, 5, 5)
    for name in ("a", "b"):
        buffer.publish(CallRecord(name, None, "", "", None, "stop", 2, measurement))
    assert (len(buffer), buffer.dropped) == (2, 0)
    buffer.publish(CallRecord("c", None, "", "", None, "stop", 2, measurement))
    assert (buffer.dropped, [record.request_id for record in buffer.take()]) == (1, ["b", "c"])
    assert len(buffer) == 0


def test_options_come_from_the_environment_or_from_vllms_own_place_and_not_from_both() -> None:
    mlfq = {"switchyard": {"policy": "mlfq"}}
    assert operators_options(mlfq, {}).policy == "mlfq"
    assert operators_options({}, {ENVIRONMENT: '{"policy": "rr"}'}).policy == "rr"
    assert operators_options({"other": 1}, {ENVIRONMENT: "{}"}) == Options()
    with pytest.raises(OptionsError, match="leave one out"):
        operators_options(mlfq, {ENVIRONMENT: "{}"})
    for text in ("", "{", '"plas"'):
        with pytest.raises(OptionsError):
            operators_options({}, {ENVIRONMENT: text})


def test_a_newcomer_goes_before_a_long_chat_on_a_cpu_too_whose_context_is_resident() -> None:
    def rank(options: Options, *, service_us: int, prompt_tokens: int, resident_tokens: int) -> float:
        program = SimpleNamespace(service_us=service_us, path_us=service_us)
        weighed = SimpleNamespace(program_weight=1.0)
        call = SimpleNamespace(
            call=weighed, prompt_tokens=prompt_tokens, resident_tokens=resident_tokens, program=program
        )
        return float(options.create_policy().arrive(call, 0).rank)

    # A modelled second is some 17 wall seconds there.
    for ordering, service_us in (("modelled", 100_000), ("wall", 1_700_000)):
        for policy in ("plas", "atlas"):
            text = json.dumps({"policy": policy, "ordering": ordering})
            options = operators_options({}, {ENVIRONMENT: text}, on_cpu=True)
            newcomer = rank(options, service_us=0, prompt_tokens=40, resident_tokens=0)
            long_chat = {"service_us": service_us, "prompt_tokens": 400, "resident_tokens": 400}
            assert newcomer < rank(options, **long_chat)
            twice = operators_options(
                {}, {ENVIRONMENT: json.dumps({**json.loads(text), "resident_weight": 2})}, on_cpu=True
            )
            assert rank(twice, **long_chat) == 0
    with pytest.raises(OptionsError, match="resident_weight"):
        read(resident_weight=-1)


def test_a_prompt_token_costs_more_on_a_cpu_unless_the_operator_says_what() -> None:
    def rank(name: str, *, on_cpu: bool, **section: float) -> float:
        text = json.dumps({"policy": name, **section})
        policy = operators_options({}, {ENVIRONMENT: text}, on_cpu=on_cpu).create_policy()
        order = ProgramOrder(SeatingConfig(seats=1), policy, TenantShares())
        return order.arrive(Call("l", "t", 1, "p", 0, 0, 0, prompt_tokens=4_000), 0).place.rank

    for policy in ("plas", "atlas", "learned"):
        assert rank(policy, on_cpu=True) > rank(policy, on_cpu=False)
        assert rank(policy, on_cpu=True, prefill_us_per_token=72) <= rank(policy, on_cpu=False)
    changed = change_options(operators_options({}, {}, on_cpu=True), {"policy": "learned"})
    assert changed.on_cpu
    with pytest.raises(OptionsError):
        read(on_cpu=True)
