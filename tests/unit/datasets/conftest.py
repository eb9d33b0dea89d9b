from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from answerkey.datasets import content, formats, rows

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file into an empty folder and returns its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture(params=["held", "streamed"])
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Let files be held in memory, or be read as streams in small chunks into a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "streamed":
            patch.setattr(content, "HELD_BYTES", 0)
            patch.setattr(rows, "BLOCK_ROWS", 3)
            patch.setattr(formats, "CHUNK_ROWS", 2)
            patch.setattr(formats, "_BLOCK", 7)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield request.param
