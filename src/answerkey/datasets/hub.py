"""The source `huggingface`: a split of a dataset on the Hugging Face hub."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self, cast

from answerkey.datasets.downloads import open_cache_folder
from answerkey.datasets.hub_client import Hub, Repository, refuse_offline
from answerkey.datasets.hub_files import Choice, choose_files, find_converted, list_missing_shards
from answerkey.datasets.joining import DataFile, FileFields, read_files
from answerkey.datasets.tables import Table
from answerkey.errors import SpecError, listing, suggest

_COMMIT = re.compile(r"[0-9a-f]{40}")
#: What `load_dataset_kwargs` may say; all of it has a field of its own here.
_KNOWN = ("name", "revision", "data_files", "data_dir", "split")
_REFUSED = {
    "trust_remote_code": "code of the hub is never run; most datasets are there as Parquet too",
    "token": "set `HF_TOKEN` in the environment",
    "use_auth_token": "set `HF_TOKEN` in the environment",
}


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
        hub = Hub()
        commit, names = self._resolve(hub)
        choice = self._choice
        shown = f"{self.origin}@{commit[:7]}"
        files = [DataFile(hub.fetch(choice, one, commit), f"{shown}/{one}", one) for one in names]
        table = read_files(files, self, shown=shown)
        return replace(table, digest=sha256(f"{table.digest} {commit}".encode()).hexdigest())

    def pin(self) -> Self:
        """Return the source of the very files that are there now, at their commit."""
        commit, names = self._resolve(Hub())
        return replace(
            self,
            split=self._choice.split,
            name=self._choice.config,
            revision=commit,
            data_files=names,
            data_dir=None,
            load_dataset_kwargs={},
        )

    @property
    def _choice(self) -> Choice:
        return Choice(
            self.path,
            cast("str | None", self._say("split")),
            cast("str | None", self._say("name")),
            cast("str | None", self._say("data_dir")),
            self._list_patterns(),
        )

    def _say(self, key: str) -> object:
        own = getattr(self, key)
        return self.load_dataset_kwargs.get(key) if own is None else own

    def _list_patterns(self) -> tuple[str, ...]:
        stated = self._say("data_files")
        if isinstance(stated, Mapping):
            stated = stated.get(self._say("split") or "train")
        if stated is None:
            return ()
        return tuple(map(str, stated)) if isinstance(stated, list | tuple) else (str(stated),)

    def _resolve(self, hub: Hub) -> tuple[str, list[str]]:
        """Return the commit and the files; what was found for a commit is remembered."""
        revision = cast("str | None", self._say("revision"))
        choice = self._choice
        is_pinned = revision is not None and _COMMIT.fullmatch(revision) is not None
        if is_pinned and choice.files and not any(set(one) & set("*?[") for one in choice.files):
            return str(revision), list(choice.files)
        memory = _Memory(hub.endpoint, choice, revision)
        if hub.is_offline or is_pinned:
            known = memory.recall()
            if known is not None:
                return known
        found = self._resolve_here(hub, revision) if hub.is_offline else self._look_up(hub, revision)
        memory.keep(*found)
        return found

    def _look_up(self, hub: Hub, revision: str | None) -> tuple[str, list[str]]:
        choice = self._choice
        repository = hub.look_up(choice, revision)
        names = choose_files(choice, repository.names, repository.card)
        if names:
            return repository.commit, names
        converted = hub.look_up_converted(choice) if revision is None else None
        if converted is None:
            message = "has no data files that can be read"
            raise choice.refuse(message, f"files there: {listing(repository.names, limit=8)}")
        return converted.commit, find_converted(choice, converted.names)

    def _resolve_here(self, hub: Hub, revision: str | None) -> tuple[str, list[str]]:
        """Return what is on this machine, if it is certain that nothing is missing."""
        choice = self._choice
        repository: Repository | None = hub.look_up_here(choice, revision)
        if repository is None:
            raise refuse_offline(choice)
        names = choose_files(choice, repository.names, repository.card)
        if not names or list_missing_shards(names) != []:
            raise refuse_offline(choice)
        return repository.commit, names


@dataclass(frozen=True)
class _Memory:
    """Which files were found for a choice, in the user's cache folder."""

    endpoint: str
    choice: Choice
    revision: str | None

    def recall(self) -> tuple[str, list[str]] | None:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
            return str(known["commit"]), [str(name) for name in known["files"]]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, commit: str, names: list[str]) -> None:
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = self._path.with_suffix(".draft")
            draft.write_text(json.dumps({"commit": commit, "files": names}), encoding="utf-8")
            draft.replace(self._path)
        except OSError:
            return  # it is only ever of use offline

    @property
    def _path(self) -> Path:
        mark = json.dumps([self.endpoint, repr(self.choice), self.revision])
        return open_cache_folder("hub") / f"{sha256(mark.encode()).hexdigest()}.json"
