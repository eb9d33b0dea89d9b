"""Where a dataset comes from, one class per `type` of source: files, folders, the web, the hub, rows in YAML.

The Hugging Face hub is asked through its own library, which only this module imports. The address of the hub
is the caller's to choose (`HF_ENDPOINT` in the environment), never a file's. The caller's token goes there
and nowhere else: the library leaves it out where the hub sends on to storage. No code of the hub is run.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable
from urllib.parse import unquote, urlsplit

from answerkey.datasets.content import COMPRESSIONS, describe_unreadable
from answerkey.datasets.formats import split_endings
from answerkey.datasets.storage import (
    MEGABYTE,
    STORES,
    Fetched,
    StoredObject,
    fetch_object,
    find_digest,
    hide_query,
    is_offline,
    is_safe,
    is_stored,
    keep_note,
    open_cache_folder,
    open_object,
    read_note,
    refuse,
    require_address,
)
from answerkey.datasets.tables import (
    DataFile,
    FileFields,
    Table,
    load_rows,
    matches,
    read_documents,
    read_files,
)
from answerkey.errors import DataError, Place, SpecError, listing, remember_url, suggest
from answerkey.templates import RowFilter
from answerkey.types import Notice, Registry

DEFAULT_MEGABYTES = 1000
#: What the caller names on the command line may be as large as storage allows.
MOST_MEGABYTES = 10**8
_DIGEST = re.compile(r"[0-9a-f]{64}")
DEFAULT_ENDPOINT = "https://huggingface.co"
#: Where the hub puts Parquet files that it made of datasets with a loading script.
CONVERTED = "refs/convert/parquet"
CARD = "README.md"
TIMEOUT = 30.0
#: The oldest version of the library that is known to work.
OLDEST = (0, 30)
DEFAULT_CONFIG = "default"
_COPY_HINT = "give a copy of its files: `--dataset FILE`"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")
#: Splits under other names, as the hub's own library knows them.
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
#: What `load_dataset_kwargs` may say; all of it has a field of its own here.
_KNOWN = ("name", "revision", "data_files", "data_dir", "split")
_REFUSED = {
    "trust_remote_code": "code of the hub is never run; most datasets are there as Parquet too",
    "token": "set `HF_TOKEN` in the environment",
    "use_auth_token": "set `HF_TOKEN` in the environment",
}


@runtime_checkable
class Source(Protocol):
    """What a source can do; its other fields are the fields of its YAML."""

    @property
    def type(self) -> str:
        """The name of the kind of source in YAML."""

    @property
    def filters(self) -> tuple[RowFilter, ...]:
        """The filters that a row must all pass."""

    def read(self, *, name: str) -> Table:
        """Return all rows; `name` is the dataset's key."""


@dataclass(frozen=True)
class LocalSource(FileFields):
    """A file on this machine."""

    file_path: str
    type: Literal["local"] = "local"
    path_field: ClassVar[str] = "file_path"

    @property
    def origin(self) -> str:
        """Where the rows come from, for people."""
        return self.file_path

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        path = Path(self.file_path)
        return read_files([DataFile(path, self.file_path, path.name)], self, shown=self.file_path)


@dataclass(frozen=True)
class InlineSource:
    """Rows written in the dataset file itself."""

    rows: tuple[dict[str, object], ...]
    type: Literal["inline"] = "inline"
    filters: tuple[RowFilter, ...] = ()

    def read(self, *, name: str) -> Table:
        """Return the rows."""
        return load_rows(self.rows, name=name)


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Rows of the caller's in memory; a run keeps them among its files, and `asdict` would copy them."""

    table: Table = field(repr=False)
    type: Literal["memory"] = "memory"
    filters: tuple[RowFilter, ...] = ()

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - they have a name of their own
        """Return the rows."""
        return self.table


@dataclass(frozen=True)
class FolderSource(FileFields):
    """The files of a folder, at any depth, in the order of their names.

    `extension` and `pattern` (over the path within the folder) say which. Data files are joined; any other
    text file is a document, which is a row of its own.
    """

    directory_path: str
    extension: str | None = None
    pattern: str | None = None
    type: Literal["folder"] = "folder"
    path_field: ClassVar[str] = "directory_path"

    @property
    def origin(self) -> str:
        """Where the rows come from, for people."""
        return self.directory_path

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the folder has a name of its own
        """Return the rows of all its files."""
        folder = Path(self.directory_path)
        found = list_files(folder, extension=self.extension, pattern=self.pattern)
        tables = [path for path in found if self.format is not None or split_endings(path)[0]]
        if tables and len(tables) < len(found):
            others = _list_names(folder, [path for path in found if path not in tables])
            message = f"the folder `{folder}` holds data files and others: {others}"
            hint = f"say which are meant: `extension: {min(path.suffix.lstrip('.') for path in tables)}`"
            raise DataError("E201", message, where=Place(file=str(folder)), hint=hint)
        if tables:
            files = [DataFile(path, str(path), path.relative_to(folder).as_posix()) for path in found]
            return read_files(files, self, shown=self.directory_path)
        # PDF files are no text: they are passed over, and counted.
        texts = [path for path in found if path.suffix.lower() != ".pdf"]
        if not texts:
            said = {"extension": self.extension, "pattern": self.pattern}
            wanted = " and ".join(f"`{name}` {value!r}" for name, value in said.items() if value is not None)
            message = (
                f"no file of the folder `{folder}` matches {wanted}" if wanted else "the folder is empty"
            )
            there = list_files(folder)
            hint = f"files there: {_list_names(folder, there)}" if there else "put data files into it"
            raise DataError("E201", message, where=Place(file=str(folder)), hint=hint)
        table = read_documents(folder, texts, self)
        skipped = len(found) - len(texts)
        notice = Notice(f"{skipped} PDF files of the folder `{folder}` are passed over: they are no text")
        return replace(table, notices=(*table.notices, notice)) if skipped else table


def _list_names(folder: Path, paths: Sequence[Path]) -> str:
    return listing([path.relative_to(folder).as_posix() for path in paths], limit=5)


def list_files(folder: Path, *, extension: str | None = None, pattern: str | None = None) -> list[Path]:
    """Return the files of a folder, at any depth, by name; hidden ones and links to folders are left out."""
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        hint = "name a file with `type: local`" if folder.exists() else None
        raise DataError("E201", f"the folder `{folder}` {what}", where=Place(file=str(folder)), hint=hint)

    def fail(error: OSError) -> None:
        raise error

    found: list[Path] = []
    try:
        for base, folders, names in os.walk(folder, onerror=fail):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths = (Path(base) / name for name in names if not name.startswith("."))
            found += [path for path in paths if path.is_file()]
    except OSError as error:
        raise describe_unreadable(folder, error) from None
    if extension is not None:
        ending = f".{extension.lower().lstrip('.')}"
        endings = (ending, *(ending + packed for packed in COMPRESSIONS))
        found = [path for path in found if path.name.lower().endswith(endings)]
    if pattern is not None:
        found = [path for path in found if matches(path.relative_to(folder).as_posix(), pattern)]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


@dataclass(frozen=True)
class UrlSource(FileFields):
    """A file at an address: `https`, `http` on this machine, or shared storage (`s3`, `gs`).

    `sha256` is the hash it must have; without it the file is looked up again each time, and fetched if it has
    changed. No key is ever sent but to the caller's own storage. Parquet there is read where it lies, of any
    size.
    """

    url: str
    sha256: str | None = None
    max_megabytes: int = DEFAULT_MEGABYTES
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        super().__post_init__()
        remember_url(self.url)
        if is_stored(self.url):
            require_address(self.url)
        elif not is_safe(self.url) or not urlsplit(self.url).hostname:
            hint = f"it begins with `https://`, or with that of a store: {listing(STORES)}"
            raise SpecError("E108", f"`url` is {hide_query(self.url)!r}", hint=hint)
        elif "@" in urlsplit(self.url).netloc:
            raise SpecError("E117", "`url` holds a name or a password", hint="no key is sent to this source")
        if self.sha256 is not None and not _DIGEST.fullmatch(self.sha256):
            raise SpecError("E108", f"`sha256` is {self.sha256!r}", hint="it has 64 digits of 0-9 and a-f")
        if self.max_megabytes < 1:
            raise SpecError("E108", f"`max_megabytes` is {self.max_megabytes}", hint="it is at least 1")

    @property
    def origin(self) -> str:
        """The address without what may be secret in it."""
        return self.url if is_stored(self.url) else hide_query(self.url)

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        if self._lies_in_place:
            self._find_stored()
        path = self.url if self._lies_in_place else self.fetch().path
        return read_files([DataFile(path, self.origin, self._name)], self, shown=self.origin)

    def pin(self) -> Self:
        """Return the source of the content that is there now; its address is without what may be secret."""
        if self._lies_in_place:
            return replace(self, sha256=find_digest(self._find_stored()))
        return replace(self, url=self.origin, sha256=self.fetch().digest)

    def fetch(self) -> Fetched:
        """Return the file on this machine."""
        self.find_format(self._name or "file")
        endings, most = "".join(split_endings(self._name)), self.max_megabytes * MEGABYTE
        if is_stored(self.url):
            return fetch_object(self._find_stored(), endings, most)
        from answerkey.datasets.web import fetch

        return fetch(self.url, endings, most, self.sha256)

    @property
    def _name(self) -> str:
        return unquote(PurePosixPath(urlsplit(self.url).path).name)

    @property
    def _lies_in_place(self) -> bool:
        """Whether the rows are read by ranges: a Parquet file on shared storage, taken as it stands."""
        return is_stored(self.url) and self.lies_in_place(self._name)

    def _find_stored(self) -> StoredObject:
        """Return the object as it is now; E214 when it has not the hash it must have."""
        stored = open_object(self.url)
        if self.sha256 is not None and (found := find_digest(stored)) != self.sha256:
            message = f"has the sha256 {found}, and {self.sha256} is expected"
            hint = "it was changed: look at it, then correct or remove `sha256`"
            raise refuse(self.url, message, hint)
        return stored


@dataclass(frozen=True)
class HuggingFaceSource(FileFields):
    """A split of a hub dataset; `revision` is a branch, a tag or a commit.

    `name` is the config, `data_files` are names or patterns of files, `data_dir` a folder of the repository.
    `load_dataset_kwargs` may say the same. Files are read as they are: no code of the hub is run.
    """

    path: str
    split: str | None = None
    name: str | None = None
    revision: str | None = None
    data_files: str | list[str] | None = None
    data_dir: str | None = None
    load_dataset_kwargs: dict[str, object] = field(default_factory=dict)
    type: Literal["huggingface"] = "huggingface"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in self.load_dataset_kwargs.items():
            if key not in _KNOWN:
                hint = _REFUSED.get(key) or suggest(key, _KNOWN) or f"keys: {listing(_KNOWN)}"
                raise SpecError("E116", f"`load_dataset_kwargs.{key}` is not done", hint=hint)
            own = getattr(self, key)
            if own is not None and own != value:
                raise SpecError("E108", f"`{key}` is given twice, and differently", hint="keep one of them")

    @property
    def origin(self) -> str:
        """The dataset's name on the hub."""
        return f"hf://datasets/{self.path}"

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the dataset has a name of its own
        """Return the rows of the split, whose digest is also that of the commit."""
        hub, asked = Hub(), self._unfold()
        commit, names = asked._resolve(hub)  # noqa: SLF001 - of the same class
        shown = f"{self.origin}@{commit[:7]}"
        files = [DataFile(hub.fetch(self, one, commit), f"{shown}/{one}", one) for one in names]
        table = read_files(files, self, shown=shown)
        return replace(table, digest=sha256(f"{table.digest} {commit}".encode()).hexdigest())

    def pin(self) -> Self:
        """Return the source of the very files that are there now, at their commit."""
        asked = self._unfold()
        commit, names = asked._resolve(Hub())  # noqa: SLF001 - of the same class
        return replace(asked, revision=commit, data_files=names, data_dir=None)

    def refuse(self, message: str, hint: str | None = None) -> DataError:
        """Return the error about a dataset that cannot be had."""
        text = f"dataset `{self.path}` of the hub {message}"
        return DataError("E214", text, where=Place(file=self.origin), hint=hint)

    def refuse_unknown(self, what: Literal["name", "split"], known: Sequence[str]) -> DataError:
        """Return the error about a config or a split that there is not, or that must be chosen."""
        asked: str | None = getattr(self, what)
        word = "config" if what == "name" else what
        near = suggest(asked or "", known)
        hint = f"{near} {word}s: {listing(known)}" if near else f"{word}s: {listing(known)}"
        message = f"has no {word} `{asked}`" if asked else f"has several {word}s"
        return self.refuse(message, f"{hint}; choose one with `{what}`")

    def _unfold(self) -> Self:
        """Return the source with what `load_dataset_kwargs` says in its fields; `data_files` is a list."""
        said: dict[str, Any] = {}
        for key in _KNOWN:
            own = getattr(self, key)
            said[key] = self.load_dataset_kwargs.get(key) if own is None else own
        files = said["data_files"]
        files = files.get(said["split"] or "train") if isinstance(files, Mapping) else files
        said["data_files"] = None if files is None else _list_texts(files)
        return replace(self, **said, load_dataset_kwargs={})

    def _resolve(self, hub: Hub) -> tuple[str, list[str]]:
        """Return the commit and the files; what was found for a commit is remembered."""
        revision, patterns = self.revision, tuple(self.data_files or ())
        is_pinned = revision is not None and _COMMIT.fullmatch(revision) is not None
        if is_pinned and patterns and not any(set(one) & set("*?[") for one in patterns):
            return str(revision), list(patterns)
        asked = [self.path, self.split, self.name, self.data_dir, patterns]
        mark = json.dumps([hub.endpoint, asked, revision])
        memory = open_cache_folder("hub") / f"{sha256(mark.encode()).hexdigest()}.json"
        if hub.is_offline or is_pinned:
            with suppress(KeyError, TypeError):
                known = read_note(memory)
                return str(known["commit"]), [str(name) for name in known["files"]]
        commit, there, card = hub.look_up(self, revision)
        names = choose_files(self, there, card)
        if hub.is_offline and not has_all_shards(names):
            raise _refuse_offline(self)
        if not names:
            converted: Sequence[str] | None = None
            if revision is None:
                with suppress(DataError):  # the hub made nothing of a dataset with a loading script
                    commit, converted, _ = hub.look_up(self, CONVERTED)
            if converted is None:
                hint = f"files there: {listing(there, limit=8)}"
                raise self.refuse("has no data files that can be read", hint)
            names = _find_converted(self, converted)
        with suppress(OSError):  # it is only ever of use offline
            keep_note(memory, {"commit": commit, "files": names})
        return commit, names


def choose_files(asked: HuggingFaceSource, names: Sequence[str], card: Mapping[str, Any]) -> list[str]:
    """Return the files of a split, by name; none when the repository holds no data files of it.

    `names` are all files of the repository, `card` what its page says at the top.
    """
    folder = "" if asked.data_dir is None else f"{asked.data_dir.strip('/')}/"
    names = sorted(name for name in names if name.startswith(folder))
    if asked.data_files:
        return _match(asked, names, asked.data_files, "`data_files`")
    configs = _read_configs(card)
    if configs:
        return _choose_listed(asked, names, configs)
    return _choose_by_name(asked, [name for name in names if split_endings(name)[0]])


def _find_converted(asked: HuggingFaceSource, names: Sequence[str]) -> list[str]:
    """Return the files of a split among those that the hub made of a dataset with a loading script."""
    split = asked.split or "train"
    config = asked.name or DEFAULT_CONFIG
    found = sorted(name for name in names if name.startswith(f"{config}/{split}/"))
    if found:
        return found
    known = sorted({name.split("/")[0] for name in names if name.count("/") > 1})
    if config not in known and known:
        raise asked.refuse_unknown("name", known)
    splits = sorted({name.split("/")[1] for name in names if name.startswith(f"{config}/")})
    raise asked.refuse_unknown("split", splits)


def has_all_shards(names: Collection[str]) -> bool:
    """Return whether names of numbered files say how many there are, and all of them are there."""
    shards = {name: _SHARD.search(name) for name in names}
    # A hash may stand behind the number, another for each shard.
    return bool(names) and all(
        found is not None
        and all(
            any(one.startswith(f"{name[: found.start()]}-{number:05d}-of-{found[2]}") for one in names)
            for number in range(int(found[2]))
        )
        for name, found in shards.items()
    )


def _match(asked: HuggingFaceSource, names: Sequence[str], patterns: Sequence[str], what: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        # `*` stays within a folder, `**` does not.
        is_deep = "**" in pattern
        loose = pattern.replace("**/", "*").replace("**", "*")
        near = [
            name
            for name in names
            if name == pattern
            or ((is_deep or name.count("/") == pattern.count("/")) and matches(name, loose))
        ]
        if not near:
            there = listing([name for name in names if split_endings(name)[0]], limit=8)
            raise asked.refuse(f"has no file `{pattern}` ({what})", f"data files there: {there}")
        found.update(dict.fromkeys(near))
    return sorted(found)


def _read_configs(card: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return what a card says: config to split to patterns; a config without splits has `train` alone."""
    configs: dict[str, dict[str, list[str]]] = {}
    listed = card.get("configs")
    for entry in listed if isinstance(listed, list) else ():
        files = entry.get("data_files") if isinstance(entry, dict) else None
        if files is None:
            continue
        if isinstance(files, list) and files and isinstance(files[0], dict):
            files = {one.get("split", "train"): one.get("path") for one in files}
        base = str(entry.get("data_dir") or "")
        splits = configs.setdefault(str(entry.get("config_name", DEFAULT_CONFIG)), {})
        for split, patterns in (files if isinstance(files, dict) else {"train": files}).items():
            splits[str(split)] = [f"{base}/{one}" if base else one for one in _list_texts(patterns)]
    return configs


def _list_texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _choose_listed(
    asked: HuggingFaceSource, names: Sequence[str], configs: Mapping[str, Mapping[str, list[str]]]
) -> list[str]:
    config = asked.name
    if config is None:
        config = DEFAULT_CONFIG if DEFAULT_CONFIG in configs else next(iter(configs), "")
        if len(configs) > 1 and config != DEFAULT_CONFIG:
            raise asked.refuse("has several configs", f"choose one with `name`: {listing(configs)}")
    if config not in configs:
        raise asked.refuse_unknown("name", list(configs))
    splits = configs[config]
    split = asked.split or (next(iter(splits)) if len(splits) == 1 else "")
    if split not in splits:
        raise asked.refuse_unknown("split", list(splits))
    return _match(asked, names, splits[split], "its card")


def _choose_by_name(asked: HuggingFaceSource, names: Sequence[str]) -> list[str]:
    """Return the files whose names say the split: in a folder of the config, if there is one."""
    if asked.name is not None:
        within = [name for name in names if asked.name in name.split("/")[:-1]]
        names = within or [name for name in names if _has_word(name, asked.name)]
    splits = _SPLITS if asked.split is None else {asked.split: (asked.split,), **_SPLITS}
    by_split = {split: [name for name in names if _has_word(name, *words)] for split, words in splits.items()}
    present = [split for split, found in by_split.items() if found]
    if not present:
        return list(names) if asked.split in {None, "train"} else []
    split = asked.split or (present[0] if len(present) == 1 else "")
    if split not in present:
        raise asked.refuse_unknown("split", present)
    return by_split[split]


def _has_word(name: str, *words: str) -> bool:
    any_word = "|".join(map(re.escape, words))
    return re.search(rf"(?<![A-Za-z0-9])(?:{any_word})(?![A-Za-z])", name, re.IGNORECASE) is not None


#: A dataset repository: its commit, its files, and what its page says at the top.
Repository = tuple[str, Sequence[str], Mapping[str, Any]]


class Hub:
    """The hub as the environment names it; `is_offline` when only what is on this machine is read."""

    def __init__(self) -> None:
        self.endpoint = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
        if not is_safe(self.endpoint):
            hint = "it begins with `https://`; only on this machine `http://` will do"
            raise SpecError("E119", f"`HF_ENDPOINT` is {self.endpoint!r}", hint=hint)
        stated = os.environ.get("HF_HUB_OFFLINE", "").strip().upper()
        self.is_offline = is_offline() or stated in {"1", "ON", "YES", "TRUE"}
        # The library's cache folder, as the environment says now.
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface"
        home = Path(os.environ.get("HF_HOME") or base)
        self.cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
        self._library = _import_library()

    def look_up(self, asked: HuggingFaceSource, revision: str | None) -> Repository:
        """Return a repository as it is at a revision, or now; offline, what is on this machine of it."""
        if not self.is_offline:
            with self._translating(asked, revision):
                api = self._library.HfApi(endpoint=self.endpoint)
                found = api.dataset_info(asked.path, revision=revision, timeout=TIMEOUT)
            card = found.card_data.to_dict() if found.card_data else {}
            return str(found.sha), [one.rfilename for one in found.siblings or ()], card
        folder = self.cache / f"datasets--{asked.path.replace('/', '--')}"
        commit = revision or "main"
        stated = folder / "refs" / commit
        if stated.is_file():
            commit = stated.read_text(encoding="utf-8").strip()
        snapshot = folder / "snapshots" / commit
        if not snapshot.is_dir():
            raise _refuse_offline(asked)
        names = [
            path.relative_to(snapshot).as_posix() for path in sorted(snapshot.rglob("*")) if path.is_file()
        ]
        is_card = (snapshot / CARD).is_file()
        return commit, names, (is_card and self._library.metadata_load(snapshot / CARD)) or {}

    def fetch(self, asked: HuggingFaceSource, name: str, commit: str) -> Path:
        """Return a file of a repository on this machine; it is fetched if it is not there."""
        with self._translating(asked, commit), _without_bars(self._library):
            return Path(
                self._library.hf_hub_download(
                    asked.path,
                    name,
                    repo_type="dataset",
                    revision=commit,
                    cache_dir=self.cache,
                    endpoint=self.endpoint,
                    local_files_only=self.is_offline,
                )
            )

    @contextmanager
    def _translating(self, asked: HuggingFaceSource, revision: str | None) -> Iterator[None]:
        from answerkey.models.proxy import guard_hub

        errors, constants = self._library.errors, self._library.constants
        # Else the library looks for AI agents in the environment, tells the hub, and fetches a list for that.
        was_silent, constants.HF_HUB_DISABLE_TELEMETRY = constants.HF_HUB_DISABLE_TELEMETRY, True
        try:
            with guard_hub(self.endpoint, self._library):
                yield
        except errors.GatedRepoError:
            page = f"{self.endpoint}/datasets/{asked.path}"
            message = "wants a token, and that you accept its terms first"
            hint = f"accept them at {page} and set `HF_TOKEN`, or {_COPY_HINT}"
            raise asked.refuse(message, hint) from None
        except errors.RepositoryNotFoundError:
            hint = "check `path`; for a private dataset set `HF_TOKEN`"
            raise asked.refuse("does not exist, or is not for you to see", hint) from None
        except errors.RevisionNotFoundError:
            raise asked.refuse(f"has no revision `{revision}`") from None
        except errors.LocalEntryNotFoundError:
            raise (_refuse_offline if self.is_offline else self._refuse_network)(asked) from None
        except errors.EntryNotFoundError:
            raise asked.refuse(f"lacks a file at `{revision}`") from None
        except errors.HfHubHTTPError as error:
            status = getattr(getattr(error, "response", None), "status_code", "unknown")
            raise asked.refuse(f"cannot be read: status {status}", "try again later") from None
        except (errors.OfflineModeIsEnabled, *_list_transport_errors(), OSError, ValueError) as error:
            if isinstance(error, errors.HFValidationError):
                raise asked.refuse("cannot exist", "`path` is `owner/name`") from None
            raise self._refuse_network(asked) from None
        finally:
            constants.HF_HUB_DISABLE_TELEMETRY = was_silent

    def _refuse_network(self, asked: HuggingFaceSource) -> DataError:
        host = urlsplit(self.endpoint).netloc
        hint = f"try again, read what is on this machine with `HF_HUB_OFFLINE=1`, or {_COPY_HINT}"
        return asked.refuse(f"cannot be fetched: no answer from `{host}`", hint)


def _refuse_offline(asked: HuggingFaceSource) -> DataError:
    """Return the error about what is not on this machine while nothing is fetched."""
    hint = f"run it once without `HF_HUB_OFFLINE` and `ANSWERKEY_OFFLINE`, or {_COPY_HINT}"
    return asked.refuse("is not on this machine, or not all of it, and nothing is fetched now", hint)


def _import_library() -> Any:  # noqa: ANN401 - the library, which need not be installed
    try:
        library: Any = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.errors")
        words: Any = importlib.import_module("huggingface_hub.utils.logging")
    except ImportError:
        message = "datasets of the hub need the package `huggingface-hub`, which is not installed"
        raise DataError("E214", message, hint="pip install huggingface-hub") from None
    if tuple(map(int, re.findall(r"\d+", library.__version__)[:2])) < OLDEST:
        need = "datasets of the hub need `huggingface-hub` 0.30 or newer"
        message = f"{need}; {library.__version__} is installed"
        raise DataError("E214", message, hint="pip install --upgrade huggingface-hub")
    words.set_verbosity_error()
    return library


def _list_transport_errors() -> Iterator[type[Exception]]:
    """Yield what the library lets through when nobody answers: `httpx` since 1.0, `httpx2` since 2.0."""
    for name in ("httpx2", "httpx"):
        with suppress(ImportError):
            yield importlib.import_module(name).HTTPError


@contextmanager
def _without_bars(library: Any) -> Iterator[None]:  # noqa: ANN401 - the library, which need not be installed
    """Have the library draw no progress bars: the commands show how far they are themselves.

    What the caller says about bars (`HF_HUB_DISABLE_PROGRESS_BARS`, or in Python) stays as it is.
    """
    is_said = library.constants.HF_HUB_DISABLE_PROGRESS_BARS is not None
    if is_said or library.utils.are_progress_bars_disabled():
        yield
        return
    library.utils.disable_progress_bars()
    try:
        yield
    finally:
        library.utils.enable_progress_bars()


SOURCES: Registry[Source] = Registry(
    "answerkey.sources",
    {
        "local": LocalSource,
        "folder": FolderSource,
        "url": UrlSource,
        "huggingface": HuggingFaceSource,
        "inline": InlineSource,
    },
)


def pin_source(source: Source) -> Source:
    """Return a source that will give the same rows again.

    What is to be fetched is fetched now, and named by its commit or its hash from then on.
    """
    pin: Callable[[], Source] = getattr(source, "pin", lambda: source)
    return pin()
