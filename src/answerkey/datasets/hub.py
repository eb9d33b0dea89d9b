"""Datasets of the Hugging Face hub, through its own library, which only this module imports.

The caller chooses the address of the hub (`HF_ENDPOINT` in the environment), never a file. The
caller's token goes there and nowhere else: the library drops it where the hub redirects to storage.
No code of the hub is run.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from answerkey.datasets.content import refuse_file
from answerkey.datasets.formats import split_endings
from answerkey.datasets.storage import is_offline, is_safe, keep_note, name_note, read_note
from answerkey.datasets.tables import DataFile, DataTable, FileFields, matches, read_files
from answerkey.errors import DataError, SpecError, listing, suggest

T = TypeVar("T")
DEFAULT_ENDPOINT = "https://huggingface.co"
#: Where the hub puts the Parquet files that it makes of datasets.
CONVERTED = "refs/convert/parquet"
TIMEOUT = 30.0
DEFAULT_CONFIG = "default"
_NO_FILES = "does not say which of its files hold the rows"
_FILES_HINT = "name its files with `data_files`"
_COPY_HINT = "give a copy of its files: `--dataset FILE`"
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: Files, or patterns of files, by config and split.
Configs = dict[str, dict[str, list[str]]]
#: The keys of `load_dataset_kwargs`; each has a field of its own here.
_KNOWN = ("name", "revision", "data_files", "data_dir", "split")


@dataclass(frozen=True)
class HuggingFaceSource(FileFields):
    """A split of a hub dataset; `revision` is a branch, a tag or a commit.

    `name` is the config, `data_files` are names or patterns of files, `data_dir` is a folder of the
    repository. `load_dataset_kwargs` may say the same. Files are read as they are: no code of the
    hub is run.
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
                message = f"`load_dataset_kwargs.{key}` is not supported"
                hint = f"keys: {listing(_KNOWN)}; no code of the hub is run, and the token is "
                hint += "that of `HF_TOKEN` in the environment"
                raise SpecError("E116", message, hint=hint)
            if getattr(self, key) not in (None, value):
                message = f"`{key}` is given twice, and differently"
                raise SpecError("E108", message, hint="keep one of them")

    @property
    def origin(self) -> str:
        """The dataset's name on the hub."""
        return f"hf://datasets/{self.path}"

    def read(self, *, name: str) -> DataTable:  # noqa: ARG002 - the dataset has a name of its own
        """Return the rows of the split; its digest also depends on the commit."""
        hub = Hub()
        commit, paths = self._merge_kwargs().resolve(hub)
        shown = f"{self.origin}@{commit[:7]}"
        files = []
        for path in paths:
            local_path = hub.fetch(self, path, commit)
            files.append(DataFile(local_path, f"{shown}/{path}", path))
        table = read_files(files, self, shown=shown)
        content = f"{table.digest} {commit}"
        digest = sha256(content.encode()).hexdigest()
        return replace(table, digest=digest)

    def pin(self) -> Self:
        """Return the source of the very files that are there now, at their commit."""
        source = self._merge_kwargs()
        commit, paths = source.resolve(Hub())
        return replace(
            source,
            revision=commit,
            data_files=paths,
            data_dir=None,
        )

    def refuse(
        self,
        message: str,
        hint: str | None = None,
    ) -> DataError:
        """Return the error about a dataset that cannot be read."""
        text = f"dataset `{self.path}` of the hub {message}"
        return refuse_file("E214", text, self.origin, hint)

    def _merge_kwargs(self) -> Self:
        """Return the source with `load_dataset_kwargs` in its fields; `data_files` is a list."""
        kwargs = self.load_dataset_kwargs
        fields: dict[str, Any] = {}
        for key in _KNOWN:
            fields[key] = getattr(self, key) or kwargs.get(key)
        files = fields["data_files"]
        if isinstance(files, Mapping):
            files = files.get(fields["split"] or "train")
        if files is not None:
            fields["data_files"] = _list_texts(files)
        return replace(self, **fields, load_dataset_kwargs={})

    def resolve(self, hub: Hub) -> tuple[str, list[str]]:
        """Return the commit and the files; what was found for a commit is remembered."""
        patterns = list(self.data_files or ())
        is_pinned = _COMMIT.fullmatch(self.revision or "") is not None
        has_wildcards = re.search(r"[*?\[]", "".join(patterns)) is not None
        if is_pinned and patterns and not has_wildcards:
            return str(self.revision), patterns
        key = [
            hub.endpoint,
            self.path,
            self.split,
            self.name,
            self.data_dir,
            patterns,
            self.revision,
        ]
        note = name_note(json.dumps(key), "hub")
        if hub.is_offline:
            memory = read_note(note)
            if not memory:
                raise self.refuse(*_OFFLINE)
            return memory["commit"], memory["files"]
        commit, names = self._look_up(hub)
        # The note is only ever of use offline.
        with suppress(OSError):
            keep_note(note, {"commit": commit, "files": names})
        return commit, names

    def _look_up(self, hub: Hub) -> tuple[str, list[str]]:
        """Return the commit and the files that the hub has now.

        Where neither the source nor the card names files, those are read that the hub made of the
        dataset.
        """
        commit, every_name, card = hub.look_up(self, self.revision)
        names = choose_files(self, every_name, card)
        if not names and self.revision is None and self.data_dir is None:
            return replace(self, revision=CONVERTED).resolve(hub)
        if not names:
            hint = f"{_FILES_HINT}; files there: {listing(every_name, limit=8)}"
            raise self.refuse(_NO_FILES, hint)
        return commit, names


def choose_files(
    source: HuggingFaceSource,
    names: Collection[str],
    card: Mapping[str, Any],
) -> list[str]:
    """Return the files of a split, by name; none if neither the source nor the card names them.

    `names` are all files of the repository, `card` is the metadata at the top of its page.
    """
    folder = ""
    if source.data_dir is not None:
        folder = f"{source.data_dir.strip('/')}/"
    names = sorted(name for name in names if name.startswith(folder))
    if source.data_files:
        return _match(source, names, list(source.data_files), "`data_files`")
    configs = _read_configs(card)
    if source.revision == CONVERTED:
        configs = _group_converted(names)
    if not configs:
        return []
    config = source.name
    if config is None and DEFAULT_CONFIG in configs:
        config = DEFAULT_CONFIG
    splits = _choose(source, "config", config, configs)
    patterns = _choose(source, "split", source.split, splits)
    return _match(source, names, patterns, "its card")


def _group_converted(names: Sequence[str]) -> Configs:
    """Return the files that the hub made, `config/split/0000.parquet`, by config and split."""
    configs: Configs = {}
    for name in _list_data_files(names):
        match name.split("/"):
            case [config, split, _]:
                splits = configs.setdefault(config, {})
                splits.setdefault(split, []).append(name)
    return configs


def _list_data_files(names: Sequence[str]) -> list[str]:
    return [name for name in names if split_endings(name)[0]]


def _match(
    source: HuggingFaceSource,
    names: Sequence[str],
    patterns: Sequence[str],
    origin: str,
) -> list[str]:
    """Return the names that fit a pattern, in which `*` stays within a folder and `**` does not."""
    fitting: set[str] = set()
    for pattern in patterns:
        before = len(fitting)
        loose = re.sub(r"\*\*/?", "*", pattern)
        depth = pattern.count("/")
        for name in names:
            is_reached = "**" in pattern or name.count("/") == depth
            if name == pattern or (is_reached and matches(name, loose)):
                fitting.add(name)
        if len(fitting) == before:
            data_files = _list_data_files(names)
            hint = f"data files there: {listing(data_files, limit=8)}"
            raise source.refuse(f"has no file `{pattern}` ({origin})", hint)
    return sorted(fitting)


def _read_configs(card: Mapping[str, Any]) -> Configs:
    """Return the patterns of files that a card lists; a config without splits has only `train`."""
    configs: Configs = {}
    # What is not as the hub documents it ends the list.
    with suppress(AttributeError, LookupError, TypeError):
        for entry in card.get("configs") or ():
            files = entry.get("data_files")
            if files is None:
                continue
            prefix = f"{entry['data_dir']}/" if entry.get("data_dir") else ""
            name = str(entry.get("config_name", DEFAULT_CONFIG))
            splits = configs.setdefault(name, {})
            for split, patterns in _list_splits(files):
                texts = _list_texts(patterns)
                splits[str(split)] = [prefix + pattern for pattern in texts]
    return configs


def _list_splits(files: Any) -> list[tuple[object, object]]:  # noqa: ANN401 - of a card
    """Return each split of `data_files` with its patterns."""
    if isinstance(files, dict):
        return list(files.items())
    if isinstance(files, list) and isinstance(files[0], dict):
        return [(part.get("split", "train"), part.get("path")) for part in files]
    return [("train", files)]


def _list_texts(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return [str(value)]


def _choose(
    source: HuggingFaceSource,
    word: str,
    name: str | None,
    choices: Mapping[str, T],
) -> T:
    """Return what a name stands for; without a name, the only choice that there is."""
    if name is None and len(choices) == 1:
        name = next(iter(choices))
    if name in choices:
        return choices[str(name)]
    field_name = "name" if word == "config" else word
    near = suggest(name or "", choices) or ""
    hint = f"{near} {word}s: {listing(choices)}; choose one with `{field_name}`".strip()
    missing = f"has several {word}s" if name is None else f"has no {word} `{name}`"
    raise source.refuse(missing, hint)


class Hub:
    """The hub that the environment names; offline, only what is on this machine."""

    def __init__(self) -> None:
        endpoint = os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
        self.endpoint = endpoint.rstrip("/")
        if not is_safe(self.endpoint):
            hint = "it begins with `https://`; only on this machine `http://` will do"
            raise SpecError("E119", f"`HF_ENDPOINT` is {self.endpoint!r}", hint=hint)
        setting = os.environ.get("HF_HUB_OFFLINE", "")
        is_set = setting.strip().upper() in {"1", "ON", "YES", "TRUE"}
        self.is_offline = is_set or is_offline()
        self._library = _import_library()

    def look_up(
        self,
        source: HuggingFaceSource,
        revision: str | None,
    ) -> tuple[str, list[str], Mapping[str, Any]]:
        """Return the commit of a repository at a revision, or now, its files and its card."""
        with self._translating(source, revision):
            api = self._library.HfApi(endpoint=self.endpoint)
            info = api.dataset_info(
                source.path,
                revision=revision,
                timeout=TIMEOUT,
            )
        card = info.card_data.to_dict() if info.card_data else {}
        names = [file.rfilename for file in info.siblings or ()]
        return str(info.sha), names, card

    def fetch(
        self,
        source: HuggingFaceSource,
        name: str,
        commit: str,
    ) -> Path:
        """Return a file of a repository on this machine, after fetching it if necessary."""
        with self._translating(source, commit):
            path = self._library.hf_hub_download(
                source.path,
                name,
                repo_type="dataset",
                revision=commit,
                cache_dir=self._library.constants.HF_HUB_CACHE,
                endpoint=self.endpoint,
                local_files_only=self.is_offline,
            )
        return Path(path)

    @contextmanager
    def _translating(
        self,
        source: HuggingFaceSource,
        revision: str | None,
    ) -> Iterator[None]:
        missing = self._library.errors.EntryNotFoundError
        try:
            yield
        except (missing, OSError, ValueError, *_list_transport_errors()) as error:
            message, hint = self._explain(error, source, revision)
            raise source.refuse(message, hint) from None

    def _explain(
        self,
        error: Exception,
        source: HuggingFaceSource,
        revision: str | None,
    ) -> tuple[str, str]:
        """Return what an error of the library means, and what to do about it."""
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "GatedRepoError" in kinds:
            page = f"{self.endpoint}/datasets/{source.path}"
            hint = f"accept them at {page} and set `HF_TOKEN`, or {_COPY_HINT}"
            return "wants a token, and that you accept its terms first", hint
        if "RepositoryNotFoundError" in kinds or "HFValidationError" in kinds:
            hint = "`path` is `owner/name`; for a private dataset set `HF_TOKEN`"
            return "does not exist, or you have no access to it", hint
        if "RevisionNotFoundError" in kinds:
            if revision == CONVERTED:
                return _NO_FILES, f"{_FILES_HINT}, or {_COPY_HINT}"
            return f"has no revision `{revision}`", "check `revision`"
        if "LocalEntryNotFoundError" in kinds and self.is_offline:
            return _OFFLINE
        reason = f"no answer from `{urlsplit(self.endpoint).netloc}`"
        response = getattr(error, "response", None)
        if response is not None:
            reason = f"status {response.status_code}"
        hint = f"try again, read what is on this machine with `HF_HUB_OFFLINE=1`, or {_COPY_HINT}"
        return f"cannot be fetched: {reason}", hint


_OFFLINE = (
    "is not on this machine, or not all of it, and nothing is fetched now",
    f"run it once without `HF_HUB_OFFLINE` and `ANSWERKEY_OFFLINE`, or {_COPY_HINT}",
)


def _import_library() -> Any:  # noqa: ANN401 - the library, which need not be installed
    try:
        library: Any = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.errors")
        logging: Any = importlib.import_module("huggingface_hub.utils.logging")
    except ImportError:
        message = "datasets of the hub need the package `huggingface-hub`, which is not installed"
        raise DataError("E214", message, hint="pip install huggingface-hub") from None
    logging.set_verbosity_error()
    # Else the library looks for AI agents in the environment, tells the hub, and fetches a list for
    # that.
    library.constants.HF_HUB_DISABLE_TELEMETRY = True
    # Our commands show the progress themselves, unless the caller wants the library's bars.
    if library.constants.HF_HUB_DISABLE_PROGRESS_BARS is None:
        library.utils.disable_progress_bars()
    return library


def _list_transport_errors() -> Iterator[type[Exception]]:
    """Yield the errors of HTTP that the library lets through: `httpx` since 1.0, `httpx2` since
    2.0.
    """
    for name in ("httpx2", "httpx"):
        with suppress(ImportError):
            yield importlib.import_module(name).HTTPError
