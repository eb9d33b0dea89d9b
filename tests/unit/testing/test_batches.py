from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from answerkey.testing import Behaviour, TestServer

Send = Callable[..., Any]


def upload(send: Send, server: TestServer, prompts: list[str]) -> str:
    """Upload a batch of prompts and return the file's id."""
    lines = [
        {
            "custom_id": f"c{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": prompt}]},
        }
        for number, prompt in enumerate(prompts)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    body = (
        '--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
        f"{content}\r\n--x--\r\n"
    ).encode()
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return str(send(server, body, "/v1/files", headers=headers).json["id"])


def finish(send: Send, server: TestServer, file: str) -> dict[str, Any]:
    """Create a batch over a file and poll it until it changes no more."""
    created = send(server, {"input_file_id": file, "endpoint": "/v1/chat/completions"}, "/v1/batches").json
    assert created["status"] == "validating"
    path = f"/v1/batches/{created['id']}"
    assert send(server, None, path, method="GET").json["status"] == "in_progress"
    batch: dict[str, Any] = send(server, None, path, method="GET").json
    return batch


def fetch(send: Send, server: TestServer, file: str) -> dict[str, Any]:
    """Return the lines of an output file by their id."""
    content = send(server, None, f"/v1/files/{file}/content", method="GET").body
    return {line["custom_id"]: line for line in map(json.loads, content.splitlines())}


def test_batch_is_uploaded_polled_and_fetched(request_any: Send) -> None:
    """After two polls a batch is complete, and its output has a line for every line of the input."""
    with TestServer({"one": "1", "two": "2"}) as server:
        batch = finish(request_any, server, upload(request_any, server, ["one", "two"]))
        assert batch["status"] == "completed"
        assert batch["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
        assert batch["error_file_id"] is None
        lines = fetch(request_any, server, batch["output_file_id"])
        said = {
            key: line["response"]["body"]["choices"][0]["message"]["content"] for key, line in lines.items()
        }
        assert said == {"c0": "1", "c1": "2"}
        assert server.asked.by_prompt == {"one": 1, "two": 1}


def test_lines_that_fail_are_in_the_error_file(request_any: Send) -> None:
    """A line with a status other than 200 goes to the error file."""
    with TestServer("B", Behaviour(faults={"500": 1.0})) as server:
        batch = finish(request_any, server, upload(request_any, server, ["one"]))
        assert batch["output_file_id"] is None
        assert fetch(request_any, server, batch["error_file_id"])["c0"]["response"]["status_code"] == 500


@pytest.mark.parametrize(("outcome", "served", "left"), [("expired", 2, 1), ("failed", 0, 0)])
def test_batch_may_end_otherwise(request_any: Send, outcome: str, served: int, left: int) -> None:
    """An expired batch has served a part; a failed one nothing."""
    with TestServer("B", Behaviour(batch_outcome=outcome)) as server:  # type: ignore[arg-type]  # a literal
        batch = finish(request_any, server, upload(request_any, server, ["a", "b", "c"]))
        assert batch["status"] == outcome
        assert (batch["request_counts"]["completed"], batch["request_counts"]["failed"]) == (served, left)


def test_batch_can_be_cancelled_and_listed(request_any: Send) -> None:
    """A cancelled batch stays so; the list shows all."""
    with TestServer() as server:
        file = upload(request_any, server, ["a"])
        key = request_any(server, {"input_file_id": file}, "/v1/batches").json["id"]
        assert request_any(server, None, f"/v1/batches/{key}/cancel").json["status"] == "cancelled"
        assert request_any(server, None, f"/v1/batches/{key}", method="GET").json["status"] == "cancelled"
        assert len(request_any(server, None, "/v1/batches", method="GET").json["data"]) == 1


def test_unknown_files_and_batches_are_not_found(request_any: Send) -> None:
    """What was never uploaded or created is a 404."""
    with TestServer() as server:
        for path in ("/v1/files/no", "/v1/files/no/content", "/v1/batches/no"):
            assert request_any(server, None, path, method="GET").status == 404
        assert request_any(server, {"input_file_id": "no"}, "/v1/batches").status == 404
        file = upload(request_any, server, ["a"])
        assert request_any(server, None, f"/v1/files/{file}", method="GET").json["purpose"] == "batch"
