"""Which requests carry the headers, through real HTTP clients, and that a failure of ours stays ours."""

import asyncio
import logging

import anthropic
import httpx
import httpx2
import openai
import pytest
import requests
from recorder import Recorder

import switchyard
from switchyard import labels

NAMES = {name.lower() for name in labels.OWN_HEADERS}


def own_headers(headers: dict[str, str]) -> set[str]:
    return NAMES & set(headers)


def post(client: str, url: str) -> None:
    body = {"content": client}
    if client == "httpx":
        httpx.post(url, json=body, follow_redirects=True, verify=False)
    elif client == "httpx2":
        httpx2.post(url, json=body, follow_redirects=True, verify=False)
    elif client == "requests":
        requests.post(url, json=body, timeout=10)
    else:
        asyncio.run(post_async(client, url))


async def post_async(client: str, url: str) -> None:
    module = httpx if client == "httpx-async" else httpx2
    async with module.AsyncClient(follow_redirects=True, verify=False) as made:
        await made.post(url, json={"content": client})


CLIENTS = ["httpx", "httpx2", "requests", "httpx-async", "httpx2-async"]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_says_which_program(server: Recorder, client: str) -> None:
    with switchyard.program("clients", regions=["eu", "us"], budget={"tokens": 500}, hints={"expect_tool_s": 2.5}):
        with switchyard.tool("web search"):
            pass
        post(client, f"{server.url}/v1/calls")
        post(client, f"{server.url}/v1/calls")
    first, second = server.calls
    assert first.headers["x-program-id"].startswith("clients-")
    assert first.headers["x-app"] == "clients"
    assert first.headers["x-thread-id"] == second.headers["x-thread-id"] == "main"
    assert first.headers["x-program-regions"] == "eu,us"
    assert first.headers["x-program-budget"] == "tokens=500"
    assert first.headers["x-program-hints"] == "expect_tool_s=2.5"
    assert first.headers["x-tool-time"].startswith("web-search;dur=")
    assert "x-tool-time" not in second.headers
    assert second.parents == ["c0"]


@pytest.mark.parametrize("client", CLIENTS)
def test_no_header_goes_to_another_host(server: Recorder, other: Recorder, client: str) -> None:
    with switchyard.program("private"):
        post(client, f"{other.url}/v1/calls")
        server.redirect = f"{other.url}/v1/calls"
        post(client, f"{server.url}/v1/calls")
    assert own_headers(server.calls[0].headers) >= {"x-program-id", "x-thread-id"}
    assert len(other.calls) == 2
    for call in other.calls:
        assert own_headers(call.headers) == set()


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_added_outside_of_programs(server: Recorder, client: str) -> None:
    with switchyard.program("before"):
        pass
    post(client, f"{server.url}/v1/calls")
    assert own_headers(server.calls[0].headers) == set()


def test_ids_that_the_caller_set_stay(server: Recorder) -> None:
    with switchyard.program("mine"):
        httpx.post(f"{server.url}/v1/calls", json={"content": "a"}, headers={"X-Program-Id": "theirs"})
        httpx.post(f"{server.url}/v1/calls", json={"content": "b"}, headers={"X-Thread-Id": "their-thread"})
        httpx.get(f"{server.url}/v1/calls")
    theirs, thread, read = server.calls
    assert own_headers(theirs.headers) == {"x-program-id"}
    assert thread.headers["x-thread-id"] == "their-thread"
    assert own_headers(read.headers) == set()


def test_the_session_is_started_and_ended_with_the_key(server: Recorder) -> None:
    with switchyard.program("research", metadata={"user": "u1"}) as run:
        pass
    start, end = server.asked
    assert (start.method, start.path) == ("POST", "/v1/programs")
    assert start.body == {"id": run.id, "app": "research", "metadata": {"user": "u1"}}
    assert (end.method, end.path) == ("DELETE", f"/v1/programs/{run.id}")
    assert start.headers["authorization"] == end.headers["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize("status", [404, 409, 500])
def test_a_session_that_was_not_started_here_is_not_ended_here(server: Recorder, status: int) -> None:
    server.start_status = status
    with switchyard.program("shared", id="shared/1"):
        httpx.post(f"{server.url}/v1/calls", json={"content": "a"})
    assert server.calls[0].headers["x-program-id"] == "shared/1"
    assert [asked.method for asked in server.asked] == ["POST", "POST"]


def test_a_session_with_an_unread_stream_is_left_to_end_by_itself(server: Recorder) -> None:
    client = httpx.Client()
    with switchyard.program("streaming"):
        response = client.send(
            client.build_request("POST", f"{server.url}/v1/calls", json={"content": "a"}), stream=True
        )
    assert [asked.method for asked in server.asked] == ["POST", "POST"]
    response.close()


def test_without_a_server_and_without_an_address_the_code_runs(caplog: pytest.LogCaptureFixture) -> None:
    with switchyard.program("nowhere", base_url="http://127.0.0.1:9", api_key="k"), pytest.raises(httpx.ConnectError):
        httpx.post("http://127.0.0.1:9/v1/calls")
    with caplog.at_level(logging.WARNING), switchyard.program("unset", base_url="no url"):
        assert switchyard.headers()["X-Thread-Id"] == "main"
    assert switchyard.headers() == {}


def test_an_error_of_the_code_comes_through(server: Recorder) -> None:
    with (
        pytest.raises(KeyError, match="theirs"),
        switchyard.program("failing"),
        switchyard.step("s"),
        switchyard.tool("t"),
    ):
        raise KeyError("theirs")
    assert [asked.method for asked in server.asked] == ["POST", "DELETE"]


def test_a_failure_of_the_library_does_not_reach_the_call(server: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with switchyard.program("broken"):
        monkeypatch.setattr(labels, "current_branch", lambda: 1 / 0)
        for client in CLIENTS:
            post(client, f"{server.url}/v1/calls")
        assert switchyard.headers() == {}
    assert len(server.calls) == len(CLIENTS)
    assert all(own_headers(call.headers) == set() for call in server.calls)


@pytest.mark.parametrize("name", ["", ".", "..", "研究", "a,b\r\nX-Evil: 1", "x" * 1000])
def test_any_name_makes_valid_headers(server: Recorder, name: str) -> None:
    with switchyard.program(name), switchyard.step(name or "s"):
        httpx.post(f"{server.url}/v1/calls", json={"content": "a"})
    headers = server.calls[0].headers
    assert 1 <= len(headers["x-program-id"]) <= 128
    assert 1 <= len(headers["x-thread-id"]) <= 128
    assert "," not in headers["x-program-id"]
    assert "x-evil" not in headers


def test_a_failed_call_is_no_parent(server: Recorder) -> None:
    with switchyard.program("failures"):
        server.call_status = 503
        httpx.post(f"{server.url}/v1/calls", json={"content": "a"})
        server.call_status = 200
        httpx.post(f"{server.url}/v1/calls", json={"content": "b"})
    assert server.placed()["b"] == ("main", set())


def test_the_official_clients_are_hooked(server: Recorder) -> None:
    """Their packages bring an HTTP client of their own. They get an empty answer, which they accept."""
    with switchyard.program("official"):
        for make in (
            lambda: openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0).chat.completions.create(
                model="m", messages=[]
            ),
            lambda: anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0).messages.create(
                model="m", messages=[], max_tokens=1
            ),
        ):
            make()
    sent = {asked.path: asked.headers.get("x-program-id", "") for asked in server.asked if asked.method == "POST"}
    assert sent["/v1/chat/completions"].startswith("official-")
    assert sent["/v1/messages"].startswith("official-")
