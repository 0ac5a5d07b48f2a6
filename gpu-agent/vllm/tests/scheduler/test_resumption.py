"""Calls whose answer began on another engine: computed with their prompt, told to the front end once, counted as output."""

from typing import Any

import pytest

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.resumption import RESUME

from .harness import MODEL_CONFIG, TOKEN, Engine
from .loads import ticket

OUTPUT = 8


def engine(depth: int = 1, **switchyard: Any) -> Engine:
    return Engine(ProgramAwareScheduler, depth=depth, switchyard=switchyard)


def resumed(name: str, tokens: str) -> dict[str, Any]:
    return {**ticket(name), RESUME: tokens}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("tokens", [[5], [5, 6, 9], [9] * (OUTPUT - 1)], ids=len)
def test_it_goes_on_behind_what_was_generated_and_ends_where_an_unbroken_one_does(
    depth: int, tokens: list[int]
) -> None:
    told = engine(depth)
    request = told.add("a", prompt=40, output=OUTPUT, xargs=resumed("a", ",".join(map(str, tokens))))
    assert request.num_prompt_tokens == 40 + len(tokens)
    play = told.run()
    assert play.tokens["a"] == tokens + [TOKEN] * (OUTPUT - len(tokens))
    assert play.steps[0] == {"a": 40 + len(tokens)}
    assert play.ended["a"].reason == "length"
    assert told.scheduler.switchyard_resumption._untold == {}


def test_its_prefix_is_found_in_the_cache_and_serves_others() -> None:
    told = engine()
    told.add("a", prompt=64, output=40, xargs=ticket("a"))
    told.run()
    tokens = ",".join([str(TOKEN)] * 33)
    told.add("b", prompt=64, output=40, xargs=resumed("b", tokens))
    told.run()
    # Three blocks of 32 tokens are at hand: two of the prompt and one of the output.
    assert told.play.steps[len(told.play.steps) - 7] == {"b": 1}
    assert told.play.tokens["b"] == [TOKEN] * 40


def test_a_call_that_ends_before_it_has_output_leaves_nothing() -> None:
    told = engine()
    told.add("a", output=OUTPUT, xargs=resumed("a", "5,6"))
    told.abort("a")
    told.add("b", output=2, xargs=ticket("b"))
    told.run()
    assert told.scheduler.switchyard_resumption._untold == {}


@pytest.mark.parametrize(
    "tokens",
    ["5,x", "-1", str(MODEL_CONFIG["vocab_size"]), ",".join(["5"] * OUTPUT)],
    ids=["text", "below", "above", "whole"],
)
def test_what_cannot_be_resumed_ends_with_an_error_and_nothing_else_does(tokens: str) -> None:
    told = engine()
    told.add("a", output=OUTPUT, xargs=resumed("a", tokens))
    told.add("b", output=OUTPUT, xargs=ticket("b"))
    play = told.run()
    assert play.ended["a"].reason == "error"
    assert play.tokens["b"] == [TOKEN] * OUTPUT


def test_a_client_that_speaks_to_vllm_itself_resumes_nothing() -> None:
    told = engine(identity="session")
    told.add("a", output=OUTPUT, xargs=resumed("a", "5,6"))
    assert told.run().tokens["a"] == [TOKEN] * OUTPUT
    assert "vocabulary_tokens" not in told.scheduler._about()


def test_the_agent_is_told_which_tokens_there_are() -> None:
    assert engine().scheduler._about()["vocabulary_tokens"] == MODEL_CONFIG["vocab_size"]


class Grammar:
    """Takes digits of TOKEN alone."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        self.taken += tokens
        return all(token == TOKEN for token in tokens)


@pytest.mark.parametrize("tokens", ["7,7", "7,5"])
def test_its_grammar_goes_through_what_was_generated_before_it_is_asked(
    tokens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = engine()
    grammar = Grammar()
    manager = told.scheduler.structured_output_manager
    monkeypatch.setattr(manager, "accept_tokens", lambda request, new: grammar.accept_tokens(request.request_id, new))
    monkeypatch.setattr(manager, "grammar_bitmask", lambda *_: list(grammar.taken))
    told.add("a", output=5, xargs=resumed("a", tokens), grammar=grammar)
    output = told.schedule()
    told.scheduler.get_grammar_bitmask(output)
    assert grammar.taken == [int(token) for token in tokens.split(",")]
    told.scheduler.get_grammar_bitmask(output)
    assert len(grammar.taken) == 2
    told.update()
    told.run()
    if tokens == "7,7":
        assert told.play.tokens["a"] == [7, 7, TOKEN, TOKEN, TOKEN]
    else:
        assert told.play.ended["a"].reason == "error"
