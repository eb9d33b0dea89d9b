"""From a request to its answer: guard, route, headers; whatever goes wrong becomes an answer, too."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from answerkey.errors import AnswerkeyError, ServeError, hide_secrets
from answerkey.reports.json_form import clean_numbers
from answerkey.reports.sanitize import make_visible
from answerkey.serve.catalog import Catalog
from answerkey.serve.door import DOOR, DOOR_POLICY
from answerkey.serve.guard import Guard, Request, is_foreign, is_opening
from answerkey.serve.page import Page
from answerkey.serve.routes import Asked, find_route

#: Of everything that is no page: there is nothing in it to run or to show.
BARE_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#: On every answer, whatever it is. No header opens anything to another origin.
HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
#: Browsers heed it only where the address is that of the machine itself, and complain elsewhere.
LOCAL_HEADERS = (("Cross-Origin-Opener-Policy", "same-origin"),)
JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"
#: Where an error is not the viewer's own: missing, changed on disk, in use, not to be written.
STATUSES = {"E501": 404, "E504": 404, "E505": 409, "E506": 409, "E508": 409, "E502": 500, "E503": 500}
METHODS_TAKEN = "GET"


@dataclass(frozen=True)
class Answer:
    """An answer: what goes over the wire, but for what the wire itself adds."""

    status: int
    body: bytes
    content_type: str = JSON
    policy: str = BARE_POLICY
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Line:
    """What else can be done with who asks: seeing whether somebody still waits."""

    is_given_up: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class App:
    """Answers requests from the runs of a catalog, the page being the same for all of them.

    `say_trouble` hears of what is a bug of ours; who asked is told no more than that it is one.
    """

    guard: Guard
    catalog: Catalog
    page: Page
    is_local: bool = True
    say_trouble: Callable[[str], object] = field(default=sys.stderr.write, repr=False)

    def answer(self, request: Request, line: Line | None = None) -> Answer:
        """Return the answer to a request."""
        try:
            return self._decorate(self._admit(request, line or Line()))
        except AnswerkeyError as error:
            return self.refuse(error, request)
        except (ConnectionError, TimeoutError):
            raise  # who asked has gone away
        except Exception as error:  # noqa: BLE001  # a front door: one request that fails must not end the rest
            told = hide_secrets("".join(traceback.format_exception(error)))
            self.say_trouble(make_visible(told, keep_lines=True))
            return self._decorate(_make_json(500, _describe("E901", "a bug in answerkey", None)))

    def refuse(self, error: AnswerkeyError, request: Request | None = None) -> Answer:
        """Return the answer to a request that is refused, or could not be carried out."""
        status = error.status if isinstance(error, ServeError) else STATUSES.get(error.code, 400)
        if error.code == "E704" and request is not None and request.target.partition("?")[0] == "/":
            # A browser that loads the page again goes on from the door; to it, that is no failure.
            is_again = request.target == "/" and is_opening(request) and not is_foreign(request)
            return self._decorate(Answer(200 if is_again else status, DOOR.encode(), HTML, DOOR_POLICY))
        # Who has the token may see file names; where the folder lies is nobody's business but its owner's.
        texts = [
            None if text is None else text.replace(str(self.catalog.folder), self.catalog.folder.name)
            for text in (error.message, error.hint)
        ]
        allow = (("Allow", METHODS_TAKEN),) if status == 405 else ()  # noqa: PLR2004  # as HTTP asks for
        return self._decorate(_make_json(status, _describe(error.code, *texts), allow))

    def _admit(self, request: Request, line: Line) -> Answer:
        address = self.guard.admit(request)
        if address.is_page:
            return Answer(200, self.page.content, HTML, self.page.policy)
        route, names = find_route(request.method, address.parts)
        asked = Asked(names, address.query, line.is_given_up)
        return _make_json(200, route(self.catalog, asked))

    def _decorate(self, answer: Answer) -> Answer:
        added = (*HEADERS, *(LOCAL_HEADERS if self.is_local else ()))
        named = (("Content-Type", answer.content_type), ("Content-Security-Policy", answer.policy))
        headers = (*named, *added, *answer.headers)
        return Answer(answer.status, answer.body, answer.content_type, answer.policy, headers)


def _describe(code: str, message: str | None, hint: str | None) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "hint": hint}}


def _make_json(status: int, content: object, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    # ASCII, so that half a surrogate pair in a completion is no trouble.
    text = json.dumps(clean_numbers(content), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Answer(status, text.encode(), headers=headers)
