"""What is asked of the Hugging Face hub, through its own library; the only module that imports it.

The address of the hub is the caller's to choose (`HF_ENDPOINT` in the environment), never a file's. The
caller's token goes there and nowhere else: the library leaves it out where the hub sends on to storage.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from answerkey.datasets.downloads import is_offline, is_safe
from answerkey.datasets.hub_files import Choice
from answerkey.errors import DataError, SpecError
from answerkey.models.proxy import guard_library

DEFAULT_ENDPOINT = "https://huggingface.co"
#: Where the hub puts Parquet files that it made of datasets with a loading script.
CONVERTED = "refs/convert/parquet"
CARD = "README.md"
TIMEOUT = 30.0
#: The oldest version of the library that is known to work.
OLDEST = (0, 30)


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
        self.is_offline = is_offline() or _is_set("HF_HUB_OFFLINE")
        self.cache = _find_cache()
        self._library = _import_library()

    def look_up(self, choice: Choice, revision: str | None) -> Repository:
        """Return a repository as it is at a revision, or now."""
        if self.is_offline:
            raise refuse_offline(choice)
        with self._translating(choice, revision):
            api = self._library.HfApi(endpoint=self.endpoint)
            found = api.dataset_info(choice.path, revision=revision, timeout=TIMEOUT)
        card = found.card_data.to_dict() if found.card_data else {}
        return Repository(str(found.sha), [one.rfilename for one in found.siblings or ()], card)

    def look_up_converted(self, choice: Choice) -> Repository | None:
        """Return what the hub made of a dataset with a loading script; None if it made nothing."""
        try:
            return self.look_up(choice, CONVERTED)
        except DataError:
            return None

    def look_up_here(self, choice: Choice, revision: str | None) -> Repository | None:
        """Return what is on this machine of a repository; None if there is nothing."""
        folder = self.cache / f"datasets--{choice.path.replace('/', '--')}"
        commit = revision or "main"
        stated = folder / "refs" / commit
        if stated.is_file():
            commit = stated.read_text(encoding="utf-8").strip()
        snapshot = folder / "snapshots" / commit
        if not snapshot.is_dir():
            return None
        names = [path.relative_to(snapshot).as_posix() for path in sorted(snapshot.rglob("*"))]
        is_card = (snapshot / CARD).is_file()
        card = self._library.metadata_load(snapshot / CARD) if is_card else None
        return Repository(commit, [name for name in names if (snapshot / name).is_file()], card or {})

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
            raise (refuse_offline if self.is_offline else self._refuse_network)(choice) from None
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


def refuse_offline(choice: Choice) -> DataError:
    """Return the error about what is not on this machine while nothing is fetched."""
    hint = "run it once without `HF_HUB_OFFLINE` and `ANSWERKEY_OFFLINE`"
    return choice.refuse("is not on this machine, or not all of it, and nothing is fetched now", hint)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip().upper() in {"1", "ON", "YES", "TRUE"}


def _find_cache() -> Path:
    """Return the library's cache folder, as the environment says now."""
    home = (
        os.environ.get("HF_HOME")
        or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface"
    )
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def _import_library() -> Any:  # noqa: ANN401 - the library, which need not be installed
    try:
        library: Any = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.errors")
        words: Any = importlib.import_module("huggingface_hub.utils.logging")
    except ImportError:
        message = "datasets of the hub need the package `huggingface-hub`, which is not installed"
        raise DataError("E214", message, hint="pip install huggingface-hub") from None
    if _read_version(library.__version__) < OLDEST:
        message = (
            f"datasets of the hub need `huggingface-hub` 0.30 or newer; {library.__version__} is installed"
        )
        raise DataError("E214", message, hint="pip install --upgrade huggingface-hub")
    words.set_verbosity_error()
    return library


def _read_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


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
