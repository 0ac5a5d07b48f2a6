"""The openai package's Files, Uploads and Batches APIs, in its strict mode, against a running system: what it got is printed as JSON.

Arguments: the base URL, the key and the model.
"""

import io
import json
import sys
import time

import openai

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, _strict_response_validation=True)
ENDED = ("completed", "failed", "expired", "cancelled")


def lines_of(count: int, tokens: int) -> bytes:
    def line(number: int) -> str:
        messages = [{"role": "user", "content": f"Count from {number} upwards."}]
        body = {"model": model, "messages": messages, "max_tokens": tokens, "temperature": 0}
        return json.dumps({"custom_id": f"line-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})

    return "\n".join(line(number) for number in range(count)).encode()


def started(file: openai.types.FileObject) -> openai.types.Batch:
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"from": "python"}
    )


def ended(batch: openai.types.Batch) -> openai.types.Batch:
    while batch.status not in ENDED:
        time.sleep(0.2)
        batch = client.batches.retrieve(batch.id)
    return batch


def by_upload(content: bytes) -> openai.types.FileObject:
    upload = client.uploads.create(
        filename="in.jsonl", purpose="batch", bytes=len(content), mime_type="application/jsonl"
    )
    half = len(content) // 2
    parts = [client.uploads.parts.create(upload.id, data=piece).id for piece in (content[:half], content[half:])]
    return client.uploads.complete(upload.id, part_ids=parts).file


def completed() -> dict:
    content = lines_of(6, 4)
    file = by_upload(content)
    assert client.files.content(file.id).read() == content
    batch = ended(started(file))
    output = client.files.content(batch.output_file_id).text.splitlines()
    return {
        "status": batch.status,
        "counts": batch.request_counts.model_dump(),
        "metadata": batch.metadata,
        "order": [json.loads(line)["custom_id"] for line in output],
        "listed": batch.id in [one.id for one in client.batches.list(limit=1)],
        "files": {one.purpose for one in client.files.list(limit=1)} >= {"batch", "batch_output"},
    }


def cancelled() -> dict:
    file = client.files.create(file=("in.jsonl", io.BytesIO(lines_of(500, 32))), purpose="batch")
    batch = started(file)
    while batch.request_counts is None or batch.request_counts.completed < 2:
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    client.batches.cancel(batch.id)
    batch = ended(batch)
    output = client.files.content(batch.output_file_id).text.splitlines()
    return {"status": batch.status, "whole": len(output) == batch.request_counts.completed}


def failed() -> list:
    file = client.files.create(file=("in.jsonl", b'{"custom_id": 1}\nnothing'), purpose="batch")
    batch = ended(started(file))
    return [batch.status, sorted({error.line for error in batch.errors.data})]


def refusals() -> list:
    file = client.files.create(file=("in.jsonl", lines_of(1, 1)), purpose="batch")
    deleted = client.files.delete(file.id).deleted
    found = [deleted]
    for ask in (lambda: client.files.retrieve(file.id), lambda: started(file), lambda: client.batches.retrieve("batch_no")):
        try:
            ask()
        except openai.APIStatusError as error:
            found.append(type(error).__name__)
    return found


print(json.dumps({"completed": completed(), "cancelled": cancelled(), "failed": failed(), "refusals": refusals()}))
