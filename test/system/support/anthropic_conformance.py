"""The anthropic package, in its strict mode, against a running system: what it parsed is printed as JSON, one object.

Arguments: the URL, the key and the model. The scripted engine answers: a tool call first, then text.
"""

import json
import sys

import anthropic

url, key, model = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, _strict_response_validation=True)
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
QUESTION = {"role": "user", "content": "How is the weather in Paris?"}
seen: dict = {}


def tool_results(message: anthropic.types.Message) -> dict:
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"{block.input['city']}: 21 degrees"}
        for block in message.content
        if block.type == "tool_use"
    ]
    return {"role": "user", "content": results}


def loop(ask) -> dict:
    first = ask([QUESTION])
    turns = [QUESTION, {"role": "assistant", "content": first.content}, tool_results(first)]
    last = ask(turns)
    return {
        "first": first.stop_reason,
        "input": [block.input for block in first.content if block.type == "tool_use"],
        "last": last.stop_reason,
        "text": "".join(block.text for block in last.content if block.type == "text"),
        "output_tokens": last.usage.output_tokens,
    }


def streamed(messages: list) -> anthropic.types.Message:
    with client.messages.stream(model=model, max_tokens=200, tools=TOOLS, messages=messages) as stream:
        events = [event.type for event in stream]
        seen.setdefault("events", events)
        return stream.get_final_message()


def error_of(call) -> dict:
    try:
        call()
    except anthropic.APIStatusError as error:
        return {
            "class": type(error).__name__,
            "status": error.status_code,
            "type": error.body["error"]["type"],
            "request_id": error.request_id,
        }
    return {}


seen["whole"] = loop(lambda turns: client.messages.create(model=model, max_tokens=200, tools=TOOLS, messages=turns))
seen["stream"] = loop(streamed)
seen["count"] = client.messages.count_tokens(model=model, messages=[QUESTION], tools=TOOLS).input_tokens
seen["models"] = [info.id for info in client.models.list(limit=1)]
seen["model"] = client.models.retrieve(model).id
image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
seen["errors"] = {
    "model": error_of(lambda: client.messages.create(model="no-such", max_tokens=9, messages=[QUESTION])),
    "image": error_of(
        lambda: client.messages.create(model=model, max_tokens=9, messages=[{"role": "user", "content": [image]}])
    ),
    "key": error_of(
        lambda: client.with_options(api_key="sk-sy-wrong").messages.create(
            model=model, max_tokens=9, messages=[QUESTION]
        )
    ),
}
print(json.dumps(seen))
