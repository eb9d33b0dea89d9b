"""Laws of the answers: their headers, and what is told when something goes wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from answerkey.viewer import server as module
from answerkey.viewer.catalog import Catalog, make_id
from answerkey.viewer.guard import Request
from answerkey.viewer.server import LOCKED_PAGE, LOCKED_SCRIPT, ApiRequest, App, build_page

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


def test_the_page_makes_no_markup_of_text() -> None:
    """The scripts use none of the ways that would."""
    page = build_page().content.decode()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in page


def test_a_browser_without_the_token_is_told_so(app: App) -> None:
    """The door says what is missing, and has nothing else in it; programs get JSON."""
    answer = app.answer(Request("GET", "/", [HOST]))
    assert (answer.status, answer.content_type) == (403, "text/html; charset=utf-8")
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


def test_a_foreign_host_does_not_see_the_door(app: App) -> None:
    """Under a foreign name there is not even a page."""
    answer = app.answer(Request("GET", "/", [("Host", "evil.example")]))
    assert (answer.status, answer.content_type) == (403, "application/json; charset=utf-8")


def test_the_page_is_only_read(app: App) -> None:
    """A PUT on it is refused."""
    assert app.answer(Request("PUT", PAGE, [HOST, ("Content-Length", "0")])).status == 405


def test_a_bug_of_ours_ends_one_request_and_tells_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked learns that it is a bug; the traceback goes to who started the viewer."""
    heard: list[str] = []
    patched = App(app.guard, app.catalog, app.page, report_bug=heard.append)

    def fail(_: Catalog, __: ApiRequest) -> object:
        raise KeyError("/secret/path")

    monkeypatch.setattr(module, "find_route", lambda *_: (fail, {}))
    answer = patched.answer(REQUESTS[2])
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "E901")
    assert b"secret" not in answer.body
    assert "/secret/path" in heard[0]


def test_an_error_does_not_tell_where_the_folder_lies(app: App, runs: Path) -> None:
    """Its name is enough."""
    (runs / "first" / "tasks" / "small" / "metrics.json").write_text("{", encoding="utf-8")
    answer = app.answer(Request("GET", f"/api/runs/{make_id('first')}", [HOST, TOKEN]))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "E503")
    assert str(runs.parent).encode() not in answer.body
    assert b"runs/first" in answer.body


def test_a_run_that_lacks_a_part_is_not_shown(app: App, runs: Path) -> None:
    """The part is named."""
    next((runs / "first" / "tasks" / "small" / "scores").iterdir()).unlink()
    answer = app.answer(Request("GET", f"/api/runs/{make_id('first')}", [HOST, TOKEN]))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "E503")
    assert b"scores/part-00000.parquet` is missing" in answer.body
