"""The source `huggingface`: a split of a dataset on the Hugging Face hub.

The hub is asked through its own library, which only this module imports. The address of the hub is the
caller's to choose (`HF_ENDPOINT` in the environment), never a file's. The caller's token goes there and
nowhere else: the library leaves it out where the hub sends on to storage. No code of the hub is run.
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
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from answerkey.datasets.downloads import is_offline, is_safe, open_cache_folder
from answerkey.datasets.tables import DataFile, FileFields, Table, matches, read_files, split_endings
from answerkey.errors import DataError, Place, SpecError, listing, suggest
from answerkey.models.proxy import guard_library

DEFAULT_ENDPOINT = "https://huggingface.co"
#: Where the hub puts Parquet files that it made of datasets with a loading script.
CONVERTED = "refs/convert/parquet"
CARD = "README.md"
TIMEOUT = 30.0
#: The oldest version of the library that is known to work.
OLDEST = (0, 30)
DEFAULT_CONFIG = "default"
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

    def _say(self, key: str) -> Any:  # noqa: ANN401 - what stands in YAML
        own = getattr(self, key)
        return self.load_dataset_kwargs.get(key) if own is None else own

    @property
    def _choice(self) -> Choice:
        split, files = self._say("split"), self._say("data_files")
        if isinstance(files, Mapping):
            files = files.get(split or "train")
        patterns = () if files is None else tuple(_list_texts(files))
        return Choice(self.path, split, self._say("name"), self._say("data_dir"), patterns)

    def _resolve(self, hub: Hub) -> tuple[str, list[str]]:
        """Return the commit and the files; what was found for a commit is remembered."""
        revision: str | None = self._say("revision")
        choice = self._choice
        is_pinned = revision is not None and _COMMIT.fullmatch(revision) is not None
        if is_pinned and choice.files and not any(set(one) & set("*?[") for one in choice.files):
            return str(revision), list(choice.files)
        mark = json.dumps([hub.endpoint, repr(choice), revision])
        memory = open_cache_folder("hub") / f"{sha256(mark.encode()).hexdigest()}.json"
        if hub.is_offline or is_pinned:
            with suppress(OSError, ValueError, KeyError, TypeError):
                known = json.loads(memory.read_text(encoding="utf-8"))
                return str(known["commit"]), [str(name) for name in known["files"]]
        repository = hub.look_up(choice, revision)
        names = choose_files(choice, repository.names, repository.card)
        if hub.is_offline and not has_all_shards(names):
            raise _refuse_offline(choice)
        if not names:
            converted = None
            if revision is None:
                with suppress(DataError):  # the hub made nothing of a dataset with a loading script
                    converted = hub.look_up(choice, CONVERTED)
            if converted is None:
                there = listing(repository.names, limit=8)
                raise choice.refuse("has no data files that can be read", f"files there: {there}")
            repository, names = converted, _find_converted(choice, converted.names)
        with suppress(OSError):  # it is only ever of use offline
            memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = memory.with_suffix(".draft")
            draft.write_text(json.dumps({"commit": repository.commit, "files": names}), encoding="utf-8")
            draft.replace(memory)
        return repository.commit, names


@dataclass(frozen=True)
class Choice:
    """What is asked for of a dataset; `files` are names or patterns."""

    path: str
    split: str | None = None
    config: str | None = None
    folder: str | None = None
    files: tuple[str, ...] = ()

    def refuse(self, message: str, hint: str | None = None) -> DataError:
        """Return the error about a dataset that cannot be had."""
        where = Place(file=f"hf://datasets/{self.path}")
        return DataError("E214", f"dataset `{self.path}` of the hub {message}", where=where, hint=hint)

    def refuse_unknown(self, what: Literal["config", "split"], known: Sequence[str]) -> DataError:
        """Return the error about a config or a split that there is not, or that must be chosen."""
        asked = self.config if what == "config" else self.split
        near = suggest(asked or "", known)
        hint = f"{near} {what}s: {listing(known)}" if near else f"{what}s: {listing(known)}"
        message = f"has no {what} `{asked}`" if asked else f"has several {what}s"
        return self.refuse(message, f"{hint}; choose one with `{'name' if what == 'config' else what}`")


def choose_files(choice: Choice, names: Sequence[str], card: Mapping[str, Any]) -> list[str]:
    """Return the files of a split, by name; none when the repository holds no data files of it.

    `names` are all files of the repository, `card` what its page says at the top.
    """
    folder = "" if choice.folder is None else f"{choice.folder.strip('/')}/"
    names = sorted(name for name in names if name.startswith(folder))
    if choice.files:
        return _match(choice, names, choice.files, "`data_files`")
    configs = _read_configs(card)
    if configs:
        return _choose_listed(choice, names, configs)
    return _choose_by_name(choice, [name for name in names if split_endings(name)[0]])


def _find_converted(choice: Choice, names: Sequence[str]) -> list[str]:
    """Return the files of a split among those that the hub made of a dataset with a loading script."""
    split = choice.split or "train"
    config = choice.config or DEFAULT_CONFIG
    found = sorted(name for name in names if name.startswith(f"{config}/{split}/"))
    if found:
        return found
    known = sorted({name.split("/")[0] for name in names if name.count("/") > 1})
    if config not in known and known:
        raise choice.refuse_unknown("config", known)
    splits = sorted({name.split("/")[1] for name in names if name.startswith(f"{config}/")})
    raise choice.refuse_unknown("split", splits)


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


def _match(choice: Choice, names: Sequence[str], patterns: Sequence[str], what: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        near = [name for name in names if name == pattern or _matches_path(name, pattern)]
        if not near:
            there = listing([name for name in names if split_endings(name)[0]], limit=8)
            raise choice.refuse(f"has no file `{pattern}` ({what})", f"data files there: {there}")
        found.update(dict.fromkeys(near))
    return sorted(found)


def _matches_path(name: str, pattern: str) -> bool:
    """Return whether a path fits a pattern; `*` stays within a folder, `**` does not."""
    if "**" in pattern:
        return matches(name, pattern.replace("**/", "*").replace("**", "*"))
    return name.count("/") == pattern.count("/") and matches(name, pattern)


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
    choice: Choice, names: Sequence[str], configs: Mapping[str, Mapping[str, list[str]]]
) -> list[str]:
    config = choice.config
    if config is None:
        config = DEFAULT_CONFIG if DEFAULT_CONFIG in configs else next(iter(configs), "")
        if len(configs) > 1 and config != DEFAULT_CONFIG:
            raise choice.refuse("has several configs", f"choose one with `name`: {listing(configs)}")
    if config not in configs:
        raise choice.refuse_unknown("config", list(configs))
    splits = configs[config]
    split = choice.split or (next(iter(splits)) if len(splits) == 1 else "")
    if split not in splits:
        raise choice.refuse_unknown("split", list(splits))
    return _match(choice, names, splits[split], "its card")


def _choose_by_name(choice: Choice, names: Sequence[str]) -> list[str]:
    """Return the files whose names say the split: in a folder of the config, if there is one."""
    if choice.config is not None:
        within = [name for name in names if choice.config in name.split("/")[:-1]]
        names = within or [name for name in names if _has_word(name, choice.config)]
    splits = _SPLITS
    if choice.split is not None and choice.split not in splits:
        splits = {**splits, choice.split: (choice.split,)}
    by_split = {split: [name for name in names if _has_word(name, *words)] for split, words in splits.items()}
    present = [split for split, found in by_split.items() if found]
    if not present:
        return list(names) if choice.split in {None, "train"} else []
    if choice.split is None:
        if len(present) > 1:
            raise choice.refuse_unknown("split", present)
        return by_split[present[0]]
    if not by_split[choice.split]:
        raise choice.refuse_unknown("split", present)
    return by_split[choice.split]


def _has_word(name: str, *words: str) -> bool:
    any_word = "|".join(map(re.escape, words))
    return re.search(rf"(?<![A-Za-z0-9])(?:{any_word})(?![A-Za-z])", name, re.IGNORECASE) is not None


@dataclass(frozen=True)
class Repository:
    """A dataset repository at one commit: its files, and what its page says at the top."""

    commit: str
    names: Sequence[str]
    card: Mapping[str, Any]


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

    def look_up(self, choice: Choice, revision: str | None) -> Repository:
        """Return a repository as it is at a revision, or now; offline, what is on this machine of it."""
        if not self.is_offline:
            with self._translating(choice, revision):
                api = self._library.HfApi(endpoint=self.endpoint)
                found = api.dataset_info(choice.path, revision=revision, timeout=TIMEOUT)
            card = found.card_data.to_dict() if found.card_data else {}
            return Repository(str(found.sha), [one.rfilename for one in found.siblings or ()], card)
        folder = self.cache / f"datasets--{choice.path.replace('/', '--')}"
        commit = revision or "main"
        stated = folder / "refs" / commit
        if stated.is_file():
            commit = stated.read_text(encoding="utf-8").strip()
        snapshot = folder / "snapshots" / commit
        if not snapshot.is_dir():
            raise _refuse_offline(choice)
        names = [
            path.relative_to(snapshot).as_posix() for path in sorted(snapshot.rglob("*")) if path.is_file()
        ]
        is_card = (snapshot / CARD).is_file()
        return Repository(commit, names, (is_card and self._library.metadata_load(snapshot / CARD)) or {})

    def fetch(self, choice: Choice, name: str, commit: str) -> Path:
        """Return a file of a repository on this machine; it is fetched if it is not there."""
        with self._translating(choice, commit), _without_bars(self._library):
            return Path(
                self._library.hf_hub_download(
                    choice.path,
                    name,
                    repo_type="dataset",
                    revision=commit,
                    cache_dir=self.cache,
                    endpoint=self.endpoint,
                    local_files_only=self.is_offline,
                )
            )

    @contextmanager
    def _translating(self, choice: Choice, revision: str | None) -> Iterator[None]:
        errors, utils = self._library.errors, self._library.utils
        try:
            forget = getattr(self._library, "close_session", None) or utils.reset_sessions
            with guard_library(self.endpoint, forget):
                yield
        except errors.GatedRepoError:
            hint = f"accept its terms at {self.endpoint}/datasets/{choice.path}, and set `HF_TOKEN`"
            raise choice.refuse("asks you to accept its terms first", hint) from None
        except errors.RepositoryNotFoundError:
            hint = "check `path`; for a private dataset set `HF_TOKEN`"
            raise choice.refuse("does not exist, or is not for you to see", hint) from None
        except errors.RevisionNotFoundError:
            raise choice.refuse(f"has no revision `{revision}`") from None
        except errors.LocalEntryNotFoundError:
            raise (_refuse_offline if self.is_offline else self._refuse_network)(choice) from None
        except errors.EntryNotFoundError:
            raise choice.refuse(f"lacks a file at `{revision}`") from None
        except errors.HfHubHTTPError as error:
            status = getattr(getattr(error, "response", None), "status_code", "unknown")
            raise choice.refuse(f"cannot be read: status {status}", "try again later") from None
        except (errors.OfflineModeIsEnabled, *_list_transport_errors(), OSError, ValueError) as error:
            if isinstance(error, errors.HFValidationError):
                raise choice.refuse("cannot exist", "`path` is `owner/name`") from None
            raise self._refuse_network(choice) from None

    def _refuse_network(self, choice: Choice) -> DataError:
        host = urlsplit(self.endpoint).netloc
        hint = "try again; `HF_HUB_OFFLINE=1` reads what is on this machine"
        return choice.refuse(f"cannot be fetched: no answer from `{host}`", hint)


def _refuse_offline(choice: Choice) -> DataError:
    """Return the error about what is not on this machine while nothing is fetched."""
    hint = "run it once without `HF_HUB_OFFLINE` and `ANSWERKEY_OFFLINE`"
    return choice.refuse("is not on this machine, or not all of it, and nothing is fetched now", hint)


def _import_library() -> Any:  # noqa: ANN401 - the library, which need not be installed
    try:
        library: Any = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.errors")
        words: Any = importlib.import_module("huggingface_hub.utils.logging")
    except ImportError:
        message = "datasets of the hub need the package `huggingface-hub`, which is not installed"
        raise DataError("E214", message, hint="pip install huggingface-hub") from None
    if tuple(map(int, re.findall(r"\d+", library.__version__)[:2])) < OLDEST:
        message = (
            f"datasets of the hub need `huggingface-hub` 0.30 or newer; {library.__version__} is installed"
        )
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
