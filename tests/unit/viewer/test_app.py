"""Laws of the answers: what can be asked for, their headers, and what is told when something goes
wrong.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from answerkey.viewer import server as module
from answerkey.viewer.catalog import Catalog, make_id
from answerkey.viewer.guard import Guard, PageRequest
from answerkey.viewer.server import (
    LOCKED_PAGE,
    LOCKED_SCRIPT,
    MAX_COMPARED,
    Answer,
    ViewerApp,
    build_page,
)

FIRST = make_id("first")
TASK = f"/api/runs/{FIRST}/tasks/0"
HOST = ("Host", "127.0.0.1:8765")
TOKEN = ("X-Answerkey-Token", "a-token-of-the-tests")
PAGE = "/?token=a-token-of-the-tests"
BARE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
OPENING = [HOST, ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
ALL = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REQUESTS = [
    ("GET", PAGE, [HOST]),
    ("GET", "/", [HOST]),
    ("GET", "/api/runs", [HOST, TOKEN]),
    ("GET", "/api/runs", [HOST]),
    ("GET", "/api/runs", [("Host", "evil.example"), TOKEN]),
    ("GET", "/api/../x", [HOST, TOKEN]),
    ("OPTIONS", "/api/runs", [HOST, TOKEN]),
    ("PUT", "/api/runs", [HOST, TOKEN]),
]


@pytest.fixture
def app(catalog: Catalog) -> ViewerApp:
    """Return an app over the runs, with a token that is known."""
    return ViewerApp(Guard(TOKEN[1], 8765), catalog, build_page())


def ask(app: ViewerApp, target: str, *headers: tuple[str, str], method: str = "GET") -> Answer:
    """Return the answer to a request, which is in order without headers of its own."""
    return app.answer(PageRequest(method, target, headers or [HOST, TOKEN]))


def find_error(answer: Answer) -> tuple[int, str]:
    """Return the status and the code of a refusal."""
    error = json.loads(answer.body)["error"]
    assert set(error) == {"code", "message", "hint"}
    return answer.status, error["code"]


@pytest.mark.parametrize(("method", "target", "sent"), REQUESTS)
def test_every_answer_bears_all_headers(
    app: ViewerApp, method: str, target: str, sent: list[tuple[str, str]]
) -> None:
    """Also a refusal; and none opens anything to another origin, or sets a cookie."""
    headers = dict(ask(app, target, *sent, method=method).headers)
    assert headers.items() >= ALL.items()
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert not [name for name in headers if name.startswith(("Access-Control", "Set-Cookie"))]
    # An answer that is no page may do nothing.
    is_page = headers["Content-Type"] == "text/html; charset=utf-8"
    assert is_page is (target in {PAGE, "/"})
    assert is_page or headers["Content-Security-Policy"] == BARE


def test_the_page_may_run_its_own_script_and_ask_this_server() -> None:
    """Nothing is loaded, framed, sent or evaluated beyond that."""
    policy = re.sub(r"'sha256-[A-Za-z0-9+/]{43}='", "HASH", build_page()[1])
    sources = "default-src 'none'; script-src HASH; style-src HASH; img-src data:"
    targets = "base-uri 'none'; form-action 'none'; connect-src 'self'; frame-ancestors 'none'"
    trust = "require-trusted-types-for 'script'; trusted-types 'none'"
    assert policy == f"{sources}; {targets}; {trust}"


def test_the_page_holds_nothing_of_a_run(app: ViewerApp) -> None:
    """It is the same whatever is in the folder, and has no token in it."""
    page = build_page()[0]
    assert b"a-token-of-the-tests" not in page
    assert str(app.catalog.folder).encode() not in page
    assert b'type="application/json"' not in page


def test_a_browser_without_the_token_gets_an_explanation(app: ViewerApp) -> None:
    """The door says what is missing, and has nothing else in it; programs get JSON."""
    answer = ask(app, "/", HOST)
    assert (answer.status, answer.body.decode()) == (403, LOCKED_PAGE)
    assert f"<script>{LOCKED_SCRIPT}</script>" in LOCKED_PAGE
    assert find_error(ask(app, "/api/runs", HOST)) == (403, "E704")


def test_reloading_a_page_is_not_an_error_to_the_browser(app: ViewerApp) -> None:
    """It gets the same door, which has nothing of a run in it; another token or site is one."""
    again = ask(app, "/", *OPENING, ("Sec-Fetch-Site", "same-origin"))
    assert (again.status, again.body.decode()) == (200, LOCKED_PAGE)
    assert ask(app, "/", *OPENING, ("Sec-Fetch-Site", "cross-site")).status == 403
    for target in ("/?token=wrong", "/api/runs"):
        assert ask(app, target, *OPENING).status == 403
    # Under a foreign name there is not even a door.
    assert find_error(ask(app, "/", ("Host", "evil.example"))) == (403, "E701")


def test_our_bugs_end_only_one_request(app: ViewerApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked learns that it is a bug; the traceback goes to who started the viewer."""
    heard: list[str] = []
    patched = ViewerApp(app.guard, app.catalog, app.page, report_bug=heard.append)

    def fail(*_: object) -> object:
        raise KeyError("/secret/path")

    monkeypatch.setattr(module, "read_api", fail)
    answer = ask(patched, "/api/runs")
    assert find_error(answer) == (500, "E901")
    assert b"secret" not in answer.body
    assert "/secret/path" in heard[0]


def test_an_error_does_not_reveal_the_path_of_the_folder(app: ViewerApp, runs: Path) -> None:
    """Its name is enough; what is damaged or missing is named."""
    task = runs / "first" / "tasks" / "small"
    next((task / "scores").iterdir()).unlink()
    missing = ask(app, f"/api/runs/{FIRST}")
    (task / "metrics.json").write_text("{", encoding="utf-8")
    damaged = ask(app, f"/api/runs/{FIRST}")
    for answer in (missing, damaged):
        assert find_error(answer) == (500, "E503")
        assert str(runs.parent).encode() not in answer.body
    assert b"scores/part-00000.parquet` is missing" in missing.body
    assert b"runs/first" in damaged.body


# ── what can be asked for


MANY = ",".join(f"r{number}" for number in range(MAX_COMPARED + 1))
#: Nothing is guessed, and nothing passed over: numbers are plain digits, a comparison is of
#: different runs.
NOT_UNDERSTOOD = f"""
{TASK}/rows?limit=501 {TASK}/rows?limit=-1 {TASK}/rows?limit=1.0 {TASK}/rows?limit=%EF%BC%91
{TASK}/rows?limit= {TASK}/rows?offset=99999999999 {TASK}/rows?offset=x {TASK}/rows?unknown=1
{TASK}/rows?text={"x" * 1001}
/api/runs/{FIRST}/tasks/x/rows /api/runs/{FIRST}/tasks/0x0/rows /api/runs/{FIRST}/tasks/-0/rows
/api/runs/{FIRST}/tasks/99999999999/rows
/api/compare?runs= /api/compare?runs={FIRST} /api/compare?runs={FIRST},{FIRST} /api/compare?runs={MANY}
"""  # noqa: E501 - the text as it is written
#: An id is looked up, and a name of a folder is no id.
NOT_FOUND = f"""
/api /api/run /api/runs/first /api/runs/r0 /api/runs/{FIRST.upper()} /api/runs/{FIRST[:-1]} /etc/passwd
/api/runs/{FIRST}/tasks /api/runs/{FIRST}/tasks/1/rows {TASK}/rows/4 {TASK}/rows/4/x {TASK}/notes/4
{TASK}/scores /run-json /api/runs/{FIRST}/files /api/compare/{FIRST} /api/compare?runs={FIRST},r0
"""  # noqa: E501 - the text as it is written


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        *((target, 400, "E702") for target in NOT_UNDERSTOOD.split()),
        *((f"{TASK}/rows?{query}", 400, "E119") for query in ("show=everything", "sort=name")),
        *((target, 404, "E703") for target in NOT_FOUND.split()),
    ],
)
def test_bad_requests_are_refused(app: ViewerApp, target: str, status: int, code: str) -> None:
    """With what is wrong, and without a look at any file but those of a run that is there."""
    assert find_error(ask(app, target)) == (status, code)


def test_half_a_surrogate_pair_is_answered(app: ViewerApp, runs: Path) -> None:
    """A folder whose name is no UTF-8 goes through JSON like any other."""
    shutil.copytree(runs / "first", runs / os.fsdecode(b"\xff"))
    assert "\udcff" in {run["label"] for run in json.loads(ask(app, "/api/runs").body)["runs"]}
