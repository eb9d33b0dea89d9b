"""Laws of the answers: what can be asked for, their headers, and what is told when something goes wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from answerkey.viewer import server as module
from answerkey.viewer.catalog import make_id
from answerkey.viewer.guard import Request
from answerkey.viewer.server import LOCKED_PAGE, LOCKED_SCRIPT, MOST_COMPARED, Answer, App, build_page

FIRST, SECOND = make_id("first"), make_id("second")
TASK = f"/api/runs/{FIRST}/tasks/0"
HOST = ("Host", "127.0.0.1:8765")
TOKEN = ("X-Answerkey-Token", "a-token-of-the-tests")
PAGE = "/?token=a-token-of-the-tests"
ALL = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REQUESTS = [
    Request("GET", PAGE, [HOST]),
    Request("GET", "/", [HOST]),
    Request("GET", "/api/runs", [HOST, TOKEN]),
    Request("GET", "/api/runs", [HOST]),
    Request("GET", "/api/runs", [("Host", "evil.example"), TOKEN]),
    Request("GET", "/api/../x", [HOST, TOKEN]),
    Request("OPTIONS", "/api/runs", [HOST, TOKEN]),
    Request("PUT", "/api/runs", [HOST, TOKEN]),
]


def ask(app: App, target: str, method: str = "GET") -> Answer:
    """Return the answer to a request that is in order."""
    return app.answer(Request(method, target, [HOST, TOKEN]))


def read(app: App, target: str) -> Any:  # noqa: ANN401  # JSON
    """Return what is answered with status 200."""
    answer = ask(app, target)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def refuse(app: App, target: str, method: str = "GET") -> tuple[int, str]:
    """Return the status and the code of a refusal."""
    answer = ask(app, target, method)
    error = json.loads(answer.body)["error"]
    assert set(error) == {"code", "message", "hint"}
    return answer.status, error["code"]


@pytest.mark.parametrize("request_made", REQUESTS)
def test_every_answer_bears_all_headers(app: App, request_made: Request) -> None:
    """Also a refusal; and none opens anything to another origin, or sets a cookie."""
    headers = dict(app.answer(request_made).headers)
    assert {name: headers.get(name) for name in ALL} == ALL
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert not [name for name in headers if name.startswith("Access-Control") or name == "Set-Cookie"]


def test_an_answer_that_is_no_page_may_do_nothing(app: App) -> None:
    """Its policy has no exception, and its type is JSON."""
    headers = dict(app.answer(REQUESTS[2]).headers)
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert headers["Content-Security-Policy"] == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def test_the_page_may_run_its_own_script_and_ask_this_server() -> None:
    """Nothing is loaded, framed, sent or evaluated beyond that."""
    rules = dict(rule.split(" ", 1) for rule in build_page().policy.split("; "))
    script, style = rules.pop("script-src"), rules.pop("style-src")
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", script)
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", style)
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_page_holds_nothing_of_a_run(app: App) -> None:
    """It is the same whatever is in the folder, and has no token in it."""
    page = build_page().content
    assert b"a-token-of-the-tests" not in page
    assert str(app.catalog.folder).encode() not in page
    assert b'type="application/json"' not in page


def test_a_browser_without_the_token_is_told_so(app: App) -> None:
    """The door says what is missing, and has nothing else in it; programs get JSON."""
    answer = app.answer(Request("GET", "/", [HOST]))
    assert (answer.status, dict(answer.headers)["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert answer.body.decode() == LOCKED_PAGE
    assert f"<script>{LOCKED_SCRIPT}</script>" in LOCKED_PAGE
    api = app.answer(Request("GET", "/api/runs", [HOST]))
    assert json.loads(api.body)["error"]["code"] == "E704"


def test_a_page_that_is_loaded_again_is_no_failure_to_the_browser(app: App) -> None:
    """It gets the same door, which has nothing of a run in it; another token or site is one."""
    opening = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    again = app.answer(Request("GET", "/", [HOST, *opening, ("Sec-Fetch-Site", "same-origin")]))
    assert (again.status, again.body.decode()) == (200, LOCKED_PAGE)
    elsewhere = app.answer(Request("GET", "/", [HOST, *opening, ("Sec-Fetch-Site", "cross-site")]))
    wrong = app.answer(Request("GET", "/?token=wrong", [HOST, *opening]))
    api = app.answer(Request("GET", "/api/runs", [HOST, *opening]))
    assert (elsewhere.status, wrong.status, api.status) == (403, 403, 403)
    # Under a foreign name there is not even a door.
    answer = app.answer(Request("GET", "/", [("Host", "evil.example")]))
    assert (answer.status, dict(answer.headers)["Content-Type"]) == (403, "application/json; charset=utf-8")


def test_a_bug_of_ours_ends_one_request_and_tells_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked learns that it is a bug; the traceback goes to who started the viewer."""
    heard: list[str] = []
    patched = App(app.guard, app.catalog, app.page, report_bug=heard.append)

    def fail(*_: object) -> object:
        raise KeyError("/secret/path")

    monkeypatch.setattr(module, "read_api", fail)
    answer = patched.answer(REQUESTS[2])
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "E901")
    assert b"secret" not in answer.body
    assert "/secret/path" in heard[0]


def test_an_error_does_not_tell_where_the_folder_lies(app: App, runs: Path) -> None:
    """Its name is enough."""
    (runs / "first" / "tasks" / "small" / "metrics.json").write_text("{", encoding="utf-8")
    answer = ask(app, f"/api/runs/{FIRST}")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "E503")
    assert str(runs.parent).encode() not in answer.body
    assert b"runs/first" in answer.body


def test_a_run_that_lacks_a_part_is_not_shown(app: App, runs: Path) -> None:
    """The part is named."""
    next((runs / "first" / "tasks" / "small" / "scores").iterdir()).unlink()
    answer = ask(app, f"/api/runs/{FIRST}")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "E503")
    assert b"scores/part-00000.parquet` is missing" in answer.body


# ── what can be asked for ───────────────────────────────────────────────────────────────────────────────


def test_runs_are_listed_newest_first(app: App) -> None:
    """Each has its id, its name, who answered and the number; the folder is told by its name alone."""
    told = read(app, "/api/runs")
    assert told["folder"] == "runs"
    assert [(one["id"], one["label"]) for one in told["runs"]] == [(SECOND, "second"), (FIRST, "first")]
    one = told["runs"][1]
    assert (one["key"], one["status"], one["metric"], one["value"], one["n"]) == (
        "small",
        "complete",
        "Accuracy",
        0.25,
        4,
    )
    assert one["tasks"][0]["key"] == "small"
    assert (one["progress"], one["error"]) == (None, None)


def test_a_run_is_shown_under_its_id(app: App) -> None:
    """The overview bears the id by which it was asked for."""
    told = read(app, f"/api/runs/{FIRST}")
    assert (told["id"], told["label"], told["status"]) == (FIRST, "first", "complete")
    assert told["tasks"][0]["counts"]["samples"] == 4


def test_rows_come_page_by_page(app: App) -> None:
    """`total` is that of the whole table, `rows` those of the page."""
    told = read(app, f"{TASK}/rows?offset=1&limit=2")
    assert (told["total"], [row["id"] for row in told["rows"]]) == (4, ["000002", "000003"])
    assert read(app, f"{TASK}/rows?offset=4") == {"total": 4, "rows": []}
    assert read(app, f"{TASK}/rows?limit=0") == {"total": 4, "rows": []}


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("show=right", ["000001"]),
        ("show=invalid", ["000002", "000003", "000004"]),
        ("category=hard", ["000003", "000004"]),
        ("text=TWO", ["000002"]),
        ("sort=position&descending=true", ["000004", "000003", "000002", "000001"]),
        ("show=invalid&category=easy", ["000002"]),
        ("show=&reason=&text=&sort=", ["000001", "000002", "000003", "000004"]),
    ],
)
def test_rows_are_filtered_and_sorted(app: App, query: str, ids: list[str]) -> None:
    """A query is carried out on the server."""
    assert [row["id"] for row in read(app, f"{TASK}/rows?{query}")["rows"]] == ids


@pytest.mark.parametrize(
    "query",
    [
        "limit=501",
        "limit=-1",
        "limit=1.0",
        "limit=%EF%BC%91",
        "limit=",
        "offset=99999999999",
        "offset=x",
        "show=everything",
        "sort=name",
        "unknown=1",
        "text=" + "x" * 1001,
    ],
)
def test_a_query_that_cannot_be_carried_out_is_refused(app: App, query: str) -> None:
    """Nothing is guessed, and nothing is passed over."""
    status, code = refuse(app, f"{TASK}/rows?{query}")
    assert (status, code) in {(400, "E702"), (400, "E119")}


def test_a_search_that_nobody_waits_for_does_not_begin(app: App) -> None:
    """Who types a word gives up what its first letters would find."""
    with pytest.raises(ConnectionAbortedError):
        app.answer(Request("GET", f"{TASK}/rows?text=two", [HOST, TOKEN]), lambda: True)
    assert len(read(app, f"{TASK}/rows?text=two")["rows"]) == 1


def test_a_sample_is_shown_whole(app: App) -> None:
    """Its question, what was said, and the verdict."""
    told = read(app, f"{TASK}/rows/1")
    assert (told["id"], told["question"], told["completion"]["text"]) == ("000002", "two", "Answer: B")
    assert told["verdicts"][0]["reason"] == "PART_OF_A_WORD"


def test_a_sample_is_found_by_its_id(app: App) -> None:
    """The position, or null: a link that leads nowhere is no error."""
    assert read(app, f"{TASK}/find?id=000003") == {"p": 2}
    assert read(app, f"{TASK}/find?id=3") == {"p": 2}
    assert read(app, f"{TASK}/find?id=000003&trial=0") == {"p": 2}
    assert read(app, f"{TASK}/find?id=000003&trial=1") == {"p": None}
    assert read(app, f"{TASK}/find?id=..%2F..%2Fetc%2Fpasswd") == {"p": None}
    assert read(app, f"{TASK}/find") == {"p": None}


def test_runs_are_compared_in_the_order_named(app: App) -> None:
    """The samples that flipped have their position in each run."""
    told = read(app, f"/api/compare?runs={SECOND},{FIRST}")
    pair = told["tasks"][0]["pairs"][0]
    assert (pair["first"], pair["second"], pair["difference"]) == (SECOND, FIRST, 0.25)
    assert pair["flips"] == [{"id": "000002", "p": {SECOND: 1, FIRST: 1}, "side": "first"}]


@pytest.mark.parametrize(
    "names", ["", FIRST, f"{FIRST},{FIRST}", ",".join(f"r{n}" for n in range(MOST_COMPARED + 1))]
)
def test_a_comparison_needs_different_runs_and_not_too_many(app: App, names: str) -> None:
    """One run has nothing to be compared with."""
    assert refuse(app, f"/api/compare?runs={names}") == (400, "E702")


@pytest.mark.parametrize(
    "target",
    [
        "/api",
        "/api/run",
        "/api/runs/first",
        "/api/runs/r0",
        f"/api/runs/{FIRST.upper()}",
        f"/api/runs/{FIRST[:-1]}",
        f"/api/runs/{FIRST}/tasks",
        f"/api/runs/{FIRST}/tasks/1/rows",
        f"/api/runs/{FIRST}/tasks/0/rows/4",
        f"/api/runs/{FIRST}/tasks/0/rows/4/x",
        f"/api/runs/{FIRST}/tasks/0/notes/4",
        f"/api/runs/{FIRST}/tasks/0/scores",
        f"/api/runs/{FIRST}/files",
        f"/api/compare/{FIRST}",
        f"/api/compare?runs={FIRST},r0",
        "/etc/passwd",
        "/run-json",
    ],
)
def test_what_does_not_exist_is_not_found(app: App, target: str) -> None:
    """An id is looked up, and a name of a folder is no id."""
    assert refuse(app, target) == (404, "E703")


@pytest.mark.parametrize("task", ["x", "0x0", "-0", "99999999999"])
def test_a_task_has_a_plain_number(app: App, task: str) -> None:
    """Anything else is refused before it is looked for."""
    assert refuse(app, f"/api/runs/{FIRST}/tasks/{task}/rows") == (400, "E702")


@pytest.mark.parametrize(
    "target",
    [
        PAGE,
        "/api/runs",
        "/api/compare",
        f"/api/runs/{FIRST}",
        f"{TASK}/rows",
        f"{TASK}/rows/0",
        f"{TASK}/find",
    ],
)
def test_nothing_can_be_written(app: App, target: str) -> None:
    """Everything is only read."""
    assert refuse(app, target, "PUT") == (405, "E702")


def test_half_a_surrogate_pair_is_answered(app: App, runs: Path) -> None:
    """A folder whose name is no UTF-8 goes through JSON like any other."""
    shutil.copytree(runs / "first", runs / os.fsdecode(b"\xff"))
    assert "\udcff" in {one["label"] for one in read(app, "/api/runs")["runs"]}
