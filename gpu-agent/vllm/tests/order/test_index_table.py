"""Looking up an index: each rank's bounds, and the prior that comes with the package."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchyard_vllm.order.index_table import (
    OBJECTIVES,
    Objective,
    index_of,
    prompt_tokens_at,
    rank_from,
    rank_of,
    step_at,
)
from switchyard_vllm.order.policies.learned import prior_table

SETTINGS = settings(deadline=None, derandomize=True, database=None)


def test_an_index_has_the_rank_of_the_quarter_of_an_octave_that_it_is_nearest_to() -> None:
    assert [rank_of(2.0 ** (quarter / 4)) for quarter in range(-9, 10)] == list(range(-9, 10))


@SETTINGS
@given(st.integers(-800, 800))
def test_a_rank_begins_where_the_one_before_ends(rank: int) -> None:
    assert rank_of(rank_from(rank)) == rank
    assert rank_of(math.nextafter(rank_from(rank), 0)) == rank - 1


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_prior_is_least_attained_service(objective: Objective) -> None:
    table = prior_table(objective)
    # Unknown programs are taken to have 200 tokens or more. It is made of points, so the index rises over octaves only.
    least = [
        min(index_of(step, 0) for step in table.steps if begin <= step.from_tokens < begin * 16)
        for begin in (256, 2**12, 2**16, 2**20)
    ]
    assert least == sorted(set(least))
    assert table.call_tokens == 0


@SETTINGS
@given(st.integers(0, 2**30), st.integers(0, 200))
def test_the_step_that_holds_is_found_from_any_other(output_tokens: int, begin: int) -> None:
    table = prior_table("token_latency")
    at = step_at(table, output_tokens, min(begin, len(table.steps) - 1))
    assert at == max(at for at, step in enumerate(table.steps) if step.from_tokens <= output_tokens)


@SETTINGS
@given(st.integers(0, 96), st.floats(0, 1e6))
def test_the_index_falls_below_what_it_is_with_fewer_prompt_tokens_only(at: int, prompt_tokens: float) -> None:
    step = prior_table("token_latency").steps[at]
    index = index_of(step, prompt_tokens)
    fewest = prompt_tokens_at(step, index)
    assert fewest == pytest.approx(prompt_tokens, rel=1e-6, abs=1e-6)
