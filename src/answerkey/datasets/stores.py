"""Stores by scheme: what is asked of them through fsspec, and what their libraries raise, in words."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from answerkey.errors import DataError, Place
from answerkey.models.settings import Secret

#: Seconds to connect, seconds without a byte, and how often a call is tried.
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
TRIES = 3
_SETTINGS = ("AWS_", "FSSPEC_", "GOOGLE_", "GCSFS_", "STORAGE_EMULATOR_HOST")
_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True)
class Found:
    """An object that a store has: its path, size and mark."""

    path: str
    size: int
    mark: str


class Store:
    """A store that fsspec knows; every error is DataError E214, and says what to do."""

    scheme: ClassVar[str] = ""
    library: ClassVar[str] = ""

    def __init__(self) -> None:
        self._foreign: tuple[type[BaseException], ...] = (OSError, ValueError)
        self._files: Any = self._connect(_import_library(self))

    def look_up(self, path: str) -> Found | None:
        """Return an object; None when there is none, though its bucket is there."""
        with self._translated(path):
            try:
                told = self._files.info(path)
            except FileNotFoundError as error:
                if _is_bucket_missing(error):
                    raise
                return None
        return _describe(path, told) if told.get("type") == "file" else None

    def find(self, path: str) -> list[Found]:
        """Return the objects below a path, by name."""
        with self._translated(path):
            try:
                found: Mapping[str, Any] = self._files.find(path, detail=True)
            except FileNotFoundError as error:
                if _is_bucket_missing(error):
                    raise
                return []
        base = path.strip("/")
        names = {name.strip("/"): told for name, told in found.items()}
        return [_describe(name, told) for name, told in sorted(names.items()) if name.startswith(f"{base}/")]

    def read(self, path: str, mark: str, start: int, stop: int) -> bytes:
        """Return a range of an object that has the mark; E214 when it has another."""
        with self._translated(path):
            raw: bytes = self._files.cat_file(path, start=start, end=stop)
        found = self.look_up(path)
        if found is None or found.mark != mark:
            raise self.refuse(path, *_CHANGED)
        return raw

    def put(self, path: str, content: bytes) -> None:
        """Write an object whole."""
        with self._translated(path):
            self._files.pipe_file(path, content)

    def put_file(self, path: str, file: Path) -> None:
        """Write a file as an object."""
        with self._translated(path):
            self._files.put_file(str(file), path)

    def put_new(self, path: str, content: bytes, mark: str | None) -> str | None:
        """Write an object if there is none, or the one with a mark; return its mark, None if it is not so."""
        before = None if mark is None else self.look_up(path)
        if mark is not None and (before is None or before.mark != mark):
            return None
        with self._translated(path):
            try:
                self._files.pipe_file(path, content, mode="create" if mark is None else "overwrite")
            except FileExistsError:
                return None
        found = self.look_up(path)
        return None if found is None else found.mark

    def copy(self, source: str, path: str) -> None:
        """Copy an object."""
        with self._translated(path):
            self._files.cp_file(source, path)

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with self._translated(path):
            try:
                self._files.rm_file(path)
            except FileNotFoundError:
                return

    def refuse(self, path: str, message: str, hint: str | None = None) -> DataError:
        """Return the error about an object; no secret is in it."""
        url = f"{self.scheme}://{path}"
        return DataError("E214", f"`{url}` {message}", where=Place(file=url), hint=hint)

    def _connect(self, library: Any) -> Any:  # noqa: ANN401 - a foreign library and its class
        return library.filesystem(self.scheme, skip_instance_cache=True, use_listings_cache=False)

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except self._foreign as error:
            raise self.refuse(path, *self._explain(error)) from None

    def _explain(self, error: BaseException) -> tuple[str, str | None]:
        """Return what an error of a library means, and what to do about it."""
        if _is_bucket_missing(error):
            return "cannot be had: there is no such bucket", "check the name of the bucket"
        if isinstance(error, FileNotFoundError):
            return "is not there", "check the address; names are told apart by case"
        if isinstance(error, PermissionError):
            hint = "look at the keys of the environment or of the profile, and at the rights of the bucket"
            return f"cannot be had: the store refuses it ({_shorten(error)})", hint
        if isinstance(error, TimeoutError):
            return f"cannot be had: no answer within {READ_SECONDS:.0f} s", "try again later"
        return f"cannot be had: {_shorten(error)}", None


class S3Store(Store):
    """Amazon S3, and what speaks as it does; every condition is the store's own to check."""

    scheme = "s3"
    library = "s3fs"

    def look_up(self, path: str) -> Found | None:
        """Return an object; None when there is none, though its bucket is there."""
        bucket, key = _split(path)
        with self._translated(path):
            try:
                told = self._files.call_s3("head_object", Bucket=bucket, Key=key)
            except FileNotFoundError:
                # A HEAD says nothing more: a listing tells a missing bucket from a missing object.
                self._files.call_s3("list_objects_v2", Bucket=bucket, Prefix=key, MaxKeys=1)
                return None
        return Found(path, int(told["ContentLength"]), str(told["ETag"]))

    def read(self, path: str, mark: str, start: int, stop: int) -> bytes:
        """Return a range of an object that has the mark; E214 when it has another."""
        with self._translated(path):
            for left in reversed(range(TRIES)):
                try:
                    return self._read(path, mark, start, stop)
                except self._broken:  # in the middle of the body, where the library does not try again
                    if not left:
                        raise
        raise AssertionError

    def put_new(self, path: str, content: bytes, mark: str | None) -> str | None:
        """Write an object if there is none, or the one with a mark; return its mark, None if it is not so."""
        bucket, key = _split(path)
        condition = {"IfNoneMatch": "*"} if mark is None else {"IfMatch": mark}
        with self._translated(path):
            try:
                told = self._files.call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)
            except OSError as error:
                if _read_code(error) in {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}:
                    return None
                if _read_code(error) != "NotImplemented":
                    raise
                told = self._files.call_s3("put_object", Bucket=bucket, Key=key, Body=content)
        return str(told["ETag"])

    def _read(self, path: str, mark: str, start: int, stop: int) -> bytes:
        bucket, key = _split(path)
        span = f"bytes={start}-{stop - 1}"

        async def fetch() -> bytes:
            reply = await self._files._call_s3(  # noqa: SLF001 - the call that the library itself makes
                "get_object", Bucket=bucket, Key=key, Range=span, IfMatch=mark
            )
            async with reply["Body"] as body:
                raw: bytes = await body.read()
                return raw

        raw: bytes = self._sync(self._files.loop, fetch)
        return raw

    def _connect(self, library: Any) -> Any:  # noqa: ANN401 - a foreign library and its class
        errors: Any = importlib.import_module("botocore.exceptions")
        self._errors = errors
        self._foreign = (*self._foreign, errors.BotoCoreError)
        web: Any = importlib.import_module("aiohttp")
        self._broken: tuple[type[BaseException], ...] = (
            web.ClientPayloadError,
            errors.HTTPClientError,
            errors.IncompleteReadError,
        )
        self._foreign = (*self._foreign, web.ClientError)
        self._sync: Callable[..., Any] = importlib.import_module("fsspec.asyn").sync
        settings = {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retries": {"total_max_attempts": TRIES, "mode": "standard"},
        }
        files = library.filesystem(
            "s3", skip_instance_cache=True, use_listings_cache=False, config_kwargs=settings
        )
        files.retries = 1  # the client tries again by itself, and its tries are counted
        try:
            files.connect()
            self._learn_secrets(files)
        except self._foreign as error:
            message = f"cannot connect to the store: {_shorten(error)}"
            hint = "look at the `AWS_…` variables of the environment, and at your AWS settings"
            raise DataError("E214", message, hint=hint) from None
        return files

    def _learn_secrets(self, files: Any) -> None:  # noqa: ANN401 - a foreign library's class
        """Learn what must never be shown, wherever the library found it."""

        async def find() -> Any:  # noqa: ANN401 - a foreign library's class
            found = await files.session.get_credentials()
            return None if found is None else await found.get_frozen_credentials()

        found = self._sync(files.loop, find)
        for text in (found.access_key, found.secret_key, found.token) if found else ():
            Secret(text or "", "caller")

    def _explain(self, error: BaseException) -> tuple[str, str | None]:
        """Return what an error of the library means, and what to do about it."""
        kinds = self._errors
        if _read_code(error) == "PreconditionFailed":
            return _CHANGED
        if isinstance(error, kinds.NoCredentialsError | kinds.PartialCredentialsError):
            keys = "set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `AWS_PROFILE`"
            hint = f"{keys}; `FSSPEC_S3_ANON=true` asks for what is public without any"
            return "cannot be had: there are no keys to ask with", hint
        if isinstance(error, kinds.ConnectionError | kinds.HTTPClientError | TimeoutError):
            host = urlsplit(str(self._files._s3.meta.endpoint_url)).hostname  # noqa: SLF001 - asked of the client itself
            hint = "look at the network, and at `AWS_ENDPOINT_URL` or `endpoint_url` of your AWS settings"
            return f"cannot be had: no answer from `{host}`", hint
        if isinstance(error, PermissionError) or _read_code(error) in {"403", "SignatureDoesNotMatch"}:
            return super()._explain(PermissionError(str(error)))
        return super()._explain(error)


class GoogleStore(Store):
    """Google Cloud Storage."""

    scheme = "gs"
    library = "gcsfs"

    def _connect(self, library: Any) -> Any:  # noqa: ANN401 - a foreign library and its class
        web: Any = importlib.import_module("aiohttp")
        keys: Any = importlib.import_module("google.auth.exceptions")
        calls: Any = importlib.import_module("gcsfs.retry")
        self._foreign = (*self._foreign, web.ClientError, keys.GoogleAuthError, calls.HttpError)
        try:
            return super()._connect(library)
        except self._foreign as error:
            message = f"cannot connect to the store: {_shorten(error)}"
            hint = "look at `GOOGLE_APPLICATION_CREDENTIALS`, and at your Google settings"
            raise DataError("E214", message, hint=hint) from None


#: Kinds of stores by the scheme of their addresses.
STORES: dict[str, type[Store]] = {"s3": S3Store, "gs": GoogleStore}
_CHANGED = ("has changed while it was being read", "start again when it is complete")
_opened: dict[tuple[object, ...], Store] = {}
_opening = threading.Lock()


def open_store(scheme: str) -> Store:
    """Return the store of a scheme as the environment says; it is opened once."""
    settings = tuple(sorted(pair for pair in os.environ.items() if pair[0].startswith(_SETTINGS)))
    key = (STORES[scheme], os.getpid(), settings)
    with _opening:
        if key not in _opened:
            for name in _SECRETS:
                Secret(os.environ.get(name, ""), "caller")
            _opened[key] = STORES[scheme]()
        return _opened[key]


def _import_library(store: Store) -> Any:  # noqa: ANN401 - the library, which need not be installed
    try:
        importlib.import_module(store.library)
        return importlib.import_module("fsspec")
    except ImportError:
        message = f"addresses `{store.scheme}://…` need the package `{store.library}`, which is not installed"
        raise DataError("E214", message, hint=f"pip install {store.library}") from None


def _describe(path: str, told: Mapping[str, Any]) -> Found:
    marks = (told.get(name) for name in ("ETag", "etag", "generation", "mtime", "created"))
    return Found(path, int(told["size"]), str(next((one for one in marks if one), "")))


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def _read_code(error: BaseException) -> str | None:
    """Return the code of S3 behind an error, as the library keeps it."""
    response = getattr(error.__cause__, "response", None) or {}
    code = response.get("Error", {}).get("Code")
    return None if code is None else str(code)


def _is_bucket_missing(error: BaseException) -> bool:
    return _read_code(error) == "NoSuchBucket"


def _shorten(error: BaseException) -> str:
    """Return the first line of what a library says."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return text.partition("\n")[0] or type(error).__name__
