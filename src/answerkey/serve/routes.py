"""What can be asked for: a table of routes, and one function for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

from answerkey.reports.explain import count_trials, find_position
from answerkey.reports.pages.filtering import Query
from answerkey.reports.pages.rows import RowBook
from answerkey.serve.catalog import Catalog
from answerkey.serve.guard import miss, refuse

MOST_ROWS = 500
USUAL_ROWS = 100
#: So many runs are compared at once; with more, pairs say nothing any more.
MOST_COMPARED = 12
MOST_TEXT = 1000


@dataclass(frozen=True)
class Asked:
    """A request that is in order: the names in its path, and its parameters.

    `is_given_up` says whether who asked does not wait any more.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    is_given_up: Callable[[], bool] = field(default=lambda: False, repr=False)

    @property
    def run(self) -> str:
        """The id of the run that is meant."""
        return self.names["run"]

    @property
    def task(self) -> int:
        """The number of the task that is meant."""
        return read_number(self.names["task"])

    @property
    def position(self) -> int:
        """The number of the row that is meant."""
        return read_number(self.names["position"])

    def require_only(self, *names: str) -> None:
        """Refuse parameters of other names."""
        for name in self.query:
            if name not in names:
                refuse("there is a parameter that means nothing here")


Route = Callable[[Catalog, Asked], object]


def list_runs(catalog: Catalog, asked: Asked) -> object:
    """Return the runs of the folder, newest first."""
    asked.require_only()
    made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"folder": catalog.folder.name, "runs": catalog.list(), "made": made}


def show_run(catalog: Catalog, asked: Asked) -> object:
    """Return the overview of a run."""
    asked.require_only()
    return catalog.describe(asked.run)


def list_rows(catalog: Catalog, asked: Asked) -> object:
    """Return some rows of a task, and how many there are that fit the query."""
    query = read_query(asked)
    offset = read_number(asked.query.get("offset", "0"))
    limit = read_number(asked.query.get("limit", str(USUAL_ROWS)), most=MOST_ROWS)
    _, _, book = catalog.open_rows(asked.run, asked.task)
    with catalog.search if query.text else nullcontext():
        if asked.is_given_up():  # who types a word does not wait for what its first letters find
            raise ConnectionAbortedError
        total, positions = find_positions(book, query, offset, limit)
    return {"total": total, "rows": book.list(positions)}


def show_sample(catalog: Catalog, asked: Asked) -> object:
    """Return one sample's whole way."""
    asked.require_only()
    _, _, book = catalog.open_rows(asked.run, asked.task)
    return book.describe(require_position(book, asked.position))


def find_sample(catalog: Catalog, asked: Asked) -> object:
    """Return where a sample stands, by its id and, where it was asked several times, the trial."""
    asked.require_only("id", "trial")
    trial = read_number(asked.query.get("trial", "0"))
    _, task = catalog.open_task(asked.run, asked.task)
    position = find_position(task, asked.query.get("id", ""))
    if position is None or trial >= count_trials(task):
        return {"p": None}
    return {"p": position + trial}


def compare_runs(catalog: Catalog, asked: Asked) -> object:
    """Return the comparison of two runs or more, in the order in which they are named."""
    asked.require_only("runs")
    names = asked.query.get("runs", "").split(",")
    if len(names) < 2 or len(names) > MOST_COMPARED or len(set(names)) < len(names):  # noqa: PLR2004 - a pair
        refuse(f"name two to {MOST_COMPARED} different runs")
    return catalog.compare(names)


_TASK = "api/runs/{run}/tasks/{task}"
ROUTES: dict[str, dict[str, Route]] = {
    "api/runs": {"GET": list_runs},
    "api/compare": {"GET": compare_runs},
    "api/runs/{run}": {"GET": show_run},
    f"{_TASK}/rows": {"GET": list_rows},
    f"{_TASK}/rows/{{position}}": {"GET": show_sample},
    f"{_TASK}/find": {"GET": find_sample},
}


def find_route(method: str, parts: tuple[str, ...]) -> tuple[Route, dict[str, str]]:
    """Return the function of a path and the names in it; E703 for no path, E702 for another method."""
    for pattern, methods in ROUTES.items():
        names = match_path(pattern.split("/"), parts)
        if names is not None:
            route = methods.get(method)
            return (route, names) if route else refuse(f"{method} is not taken here", status=405)
    return miss()


def match_path(pattern: list[str], parts: tuple[str, ...]) -> dict[str, str] | None:
    """Return the parts of a path by the names that a pattern gives them; None when it is another path."""
    if len(pattern) != len(parts):
        return None
    names: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return names


def read_number(text: str, *, most: int = 2**32 - 1) -> int:
    """Return a whole number of plain digits; E702 for anything else."""
    if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) is None or int(text) > most:
        refuse(f"a whole number from 0 to {most:,} is needed")
    return int(text)


def read_query(asked: Asked) -> Query:
    """Return what rows are asked for, and in which order."""
    asked.require_only("offset", "limit", *(one.name for one in fields(Query)))
    if any(len(text) > MOST_TEXT for text in asked.query.values()):
        refuse(f"a text to look for has at most {MOST_TEXT:,} characters")
    return Query.parse(asked.query)


def find_positions(book: RowBook, query: Query, offset: int, limit: int) -> tuple[int, list[int]]:
    """Return how many rows fit a query, and the positions of some; all rows in their order need no search."""
    if query.is_plain:
        return len(book), list(range(min(offset, len(book)), min(offset + limit, len(book))))
    found = book.find(query)
    return len(found), found.slice(offset, limit).to_list()


def require_position(book: RowBook, position: int) -> int:
    """Return a position that is in the table; E703 for one that is not."""
    return position if position < len(book) else miss("there is no such row in this task")
