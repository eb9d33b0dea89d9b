"""Texts that are compared letter by letter with a stored one.

They are renewed only by `pytest tests/golden --renew-goldens`; look at the difference before
keeping it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


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
def compare(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that compares a text with that of a file, or renews the file."""
    is_renewed = request.config.getoption("--renew-goldens", default=False)

    def compare_text(file: Path, text: str) -> None:
        if is_renewed:
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return compare_text
