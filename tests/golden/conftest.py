"""Texts that are compared letter by letter with a stored one.

They are renewed only by `pytest tests/golden --renew-goldens`; look at the difference before
keeping it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that writes the stored texts anew."""
    parser.addoption("--renew-goldens", action="store_true", help="write the stored texts anew")


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, without colour."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with the stored one of that name, or renews it."""
    renew = request.config.getoption("--renew-goldens", default=False)

    def compare_text(name: str, text: str) -> None:
        file = FOLDER / name
        if renew:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return compare_text


@pytest.fixture
def settle() -> Callable[[str], str]:
    """Return a function that makes stable what differs from run to run: times, hashes, the
    folder.
    """

    def settle_text(text: str) -> str:
        text = text.replace(str(Path.cwd()), "/project")
        text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d( UTC|Z))?", "TIME", text)
        return re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)

    return settle_text
