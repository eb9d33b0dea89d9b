"""Laws of other tools' logs: imported or refused, and what was imported can be run."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

from answerkey.errors import AnswerkeyError
from answerkey.importers import READERS, import_log
from answerkey.importers.archives import list_members, open_member
from answerkey.importers.imports import detect_kind
from answerkey.importers.json_values import DamagedError
from answerkey.spec import load_plan

from .law import Law, list_stored, list_words, open_folder, refusing, require_error
from .replies import JSON_WORDS

#: Begins a file of a log: `=== its/name`, then its bytes up to the next such line.
_FILE = re.compile(rb"(?:\A|\n)=== ([a-zA-Z0-9_./-]{1,120})\n")
_MOST_FILES = 8


def unfold(raw: bytes, folder: Path) -> Path:
    """Write the files of an input below a folder; return the only one, or the folder of all."""
    begins = list(_FILE.finditer(raw))[:_MOST_FILES]
    ends = [begin.start() for begin in begins[1:]] + [len(raw)]
    written: list[Path] = []
    for begin, end in zip(begins, ends, strict=False):
        path = folder / Path(begin[1].decode().replace("..", "_").strip("/"))
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw[begin.end() : end])
            written.append(path)
    return written[0] if len(written) == 1 else folder


def check_log(kind: str, raw: bytes) -> None:
    """Require that a log is refused and nothing is written, or becomes a folder that can be run."""
    desk = open_folder() / "desk"
    shutil.rmtree(desk, ignore_errors=True)
    log, out = desk / "log", desk / "out"
    log.mkdir(parents=True)
    path = unfold(raw, log)
    with refusing():
        detect_kind(path)
    try:
        result = import_log(kind, path, out=out, allow_failed="100%")
    except AnswerkeyError as error:
        require_error(error)
        assert [path.name for path in desk.iterdir()] == ["log"]
        return
    assert result.samples >= 0
    assert sorted(path.name for path in desk.iterdir()) == ["log", "out"]
    if result.has_questions:
        assert not load_plan(out).errors


def check_archive(raw: bytes) -> None:
    """Require that the list and the members of an archive are read or damaged."""
    path = open_folder() / "log.zip"
    path.write_bytes(raw)
    with refusing():
        for member in list_members(path)[:20]:
            with suppress(DamagedError), open_member(path, member) as stream:
                while stream.read(65_536):
                    pass


def _list_archives() -> list[bytes]:
    return [raw.partition(b"\n")[2] for raw in list_stored("log_inspect") if b"PK\x03\x04" in raw]


def make_laws() -> dict[str, Law]:
    """Return the laws of this module by name."""
    words = [*JSON_WORDS, *list_words("log")]
    kinds = [kind for kind in READERS if READERS[kind].__module__.startswith("answerkey.")]
    laws = {
        f"log_{kind}": Law(partial(check_log, kind), partial(list_stored, f"log_{kind}"), words, 25)
        for kind in kinds
    }
    marks = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06")
    return {**laws, "archive": Law(check_archive, _list_archives, marks, 100)}
