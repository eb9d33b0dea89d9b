"""Raw files of a benchmark, as people have them: told by their columns, read as its task wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from answerkey.datasets import FileFields, UrlSource, list_files, load_table, matches
from answerkey.errors import AnswerkeyError, DataError, Place, listing
from answerkey.spec.config import Config
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, ScalarNode, from_plain
from answerkey.spec.ready_made import Form, ReadyMade
from answerkey.spec.sources import DatasetSpec, build_source, is_remote, name_dataset

#: Where the caller names a dataset.
_PLACE = Place(file="--dataset")


@dataclass(frozen=True)
class _Found:
    """Files that may have a form: how a source names them, and the first of them to look at.

    Of a folder with `count` files, only the `read` that match `pattern` are read.
    """

    stated: dict[str, object]
    first: Path
    count: int = 1
    pattern: str | None = None
    read: int = 1


def open_raw_files(
    given: str | Path, ready: ReadyMade, config: Config, findings: Findings
) -> DatasetSpec | None:
    """Return what a caller gives as the data of a ready-made task.

    Report what has none of its forms; raise DataError for a file that cannot be had.
    """
    seen: list[str] = []
    for form in list_forms(ready):
        found = _find_remote(str(given), form) if is_remote(str(given)) else _find(Path(given), form)
        if found is None:
            continue
        node = _describe_source(form, found, config, findings)
        columns = _peek(found.first, node)
        if set(form.expects) <= set(columns):
            _tell_choice(found, findings)
            source = build_source(node, findings, base=Path())
            title = ready.about.title
            return None if source is None else DatasetSpec(name_dataset(given), source, title, place=_PLACE)
        seen = seen or columns
    findings.report(_refuse(given, ready, seen))
    return None


def list_forms(ready: ReadyMade) -> Iterator[Form]:
    """Yield the forms of a benchmark, and last the one that its task reads without any change."""
    yield from ready.forms
    category = ready.about.category or "category"
    derive = {category: f"{{{{ sample['{category}'] | default('all') }}}}"}
    source = cast("MapNode", from_plain({"derive": derive}, _PLACE))
    description = "a table with `question`, `options` (a list of texts) and `answer` (a letter)"
    yield Form("plain", description, ("question", "options", "answer"), None, None, source)


def _find(path: Path, form: Form) -> _Found | None:
    """Return the files of a path that a form may fit by their names."""
    if not path.is_dir():
        is_named = form.extension is None or _has_extension(path.name, form.extension)
        return _Found({"type": "local", "file_path": str(path.resolve())}, path) if is_named else None
    there = list_files(path, extension=form.extension)
    if not there or (form.extension is None and len({one.suffix for one in there}) > 1):
        return None
    stated: dict[str, object] = {"type": "folder", "directory_path": str(path.resolve())}
    stated |= {"extension": form.extension} if form.extension else {}
    wanted = [one for one in there if form.prefer and matches(one.relative_to(path).as_posix(), form.prefer)]
    if not wanted or len(wanted) == len(there):
        return _Found(stated, there[0])
    return _Found({**stated, "pattern": form.prefer}, wanted[0], len(there), form.prefer, len(wanted))


def _find_remote(url: str, form: Form) -> _Found | None:
    if form.extension is not None and not _has_extension(urlsplit(url).path, form.extension):
        return None
    return _Found({"type": "url", "url": url}, UrlSource(url=url).fetch().path)


def _has_extension(name: str, extension: str) -> bool:
    return extension in name.lower().split(".")[1:]


def _describe_source(form: Form, found: _Found, config: Config, findings: Findings) -> MapNode:
    where = {name: ScalarNode(value, _PLACE) for name, value in found.stated.items()}
    how = cast("MapNode", config.fill(form.source, findings, ("source",)))
    return MapNode({**where, **how.entries}, _PLACE, how.keys)


def _peek(path: Path, node: MapNode) -> list[str]:
    """Return the columns that a file has when it is read so; none when it cannot be."""
    source = build_source(node, Findings(), base=Path())
    try:
        how = cast("FileFields", source)
        return load_table(path, columns=how.columns, layout=how.layout).rows.columns
    except AnswerkeyError:
        return []


def _tell_choice(found: _Found, findings: Findings) -> None:
    if found.pattern is not None:
        message = f"of {found.count} files only those that match `{found.pattern}` are read: {found.read}"
        where = Place(file=str(found.stated["directory_path"]))
        findings.notice(message, where, "to read others, give a single file or a folder with them alone")


def _refuse(given: str | Path, ready: ReadyMade, seen: list[str]) -> DataError:
    columns = f" (columns: {listing(seen)})" if seen else ""
    message = f"`--dataset {given}` is no data of `{ready.name}` in a form that is known{columns}"
    known = "; ".join(form.description for form in list_forms(ready))
    hint = f"known are: {known}. Or give a dataset file that derives these columns"
    return DataError("E206", message, where=Place(file=str(given)), hint=hint)
