"""A call cache for each test; projects with a second model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.projects import write_rows

from answerkey.testing import TestServer

from .second_models import SecondModel, make_fallback, make_judge

MAKERS = {"fallback": make_fallback, "judge": make_judge}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the calls of each test in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def open_project(kind: str, folder: Path) -> Iterator[SecondModel]:
    """Yield a project with a second model, written, and its endpoint."""
    folder.mkdir()
    with TestServer("") as server:
        project = MAKERS[kind](folder, server)
        server.change(project.answers)
        write_rows(folder / "rows.jsonl", project.rows)
        project.write()
        yield project


@pytest.fixture(params=list(MAKERS))
def second(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecondModel]:
    """Return a project with a second model of each kind."""
    yield from open_project(request.param, tmp_path / "project")


@pytest.fixture
def fallback(tmp_path: Path) -> Iterator[SecondModel]:
    """Return a project with a fallback."""
    yield from open_project("fallback", tmp_path / "project")


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[SecondModel]:
    """Return a project with a judge."""
    yield from open_project("judge", tmp_path / "project")
