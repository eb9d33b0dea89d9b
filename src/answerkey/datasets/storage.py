"""Objects on shared storage, `s3://…` and `gs://…`, and the user's cache of files that were fetched whole.

Who may read, and which host is asked, is the caller's to say: keys, region and endpoint come from the
environment and the user's own settings, never from a project. Stores are asked through fsspec; libraries are
imported for the first address that needs one. An object is read as it was looked up: one that has changed
since is an error.

`$XDG_CACHE_HOME/answerkey/downloads` holds fetched contents, each under its sha256, and under `urls` what was
last found at an address: the address itself, which may hold a key, is not stored. All of it may be deleted.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from answerkey.errors import DataError, Place, SpecError, hide_secrets, listing
from answerkey.models.config import Caller, Secret, is_loopback

#: Set to anything but `0`: nothing is fetched, and what was fetched before is used.
OFFLINE = "ANSWERKEY_OFFLINE"
MEGABYTE = 10**6
#: Read at a time, and how many such blocks are on the way together.
BLOCK = 8 * 2**20
AHEAD = 4
#: Seconds to connect, seconds without a byte, seconds for a whole range, and how often a call is tried.
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
TRANSFER_SECONDS = 600.0
TRIES = 3
_SETTINGS = ("AWS_", "FSSPEC_", "GOOGLE_", "GCSFS_", "STORAGE_EMULATOR_HOST")
_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_CHANGED = ("has changed while it was being read", "start again when it is complete")
_NO_BUCKET = "NoSuchBucket"
_callers_hosts: set[str] = set()
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_stored(name: str | Path) -> bool:
    """Return whether a name is the address of an object, or of a folder of them, on shared storage."""
    found = _SCHEME.match(name) if isinstance(name, str) else None
    return found is not None and found[0][:-3].lower() in STORES


def name_lasting(given: str | Path) -> str:
    """Return the name by which a file or folder is found again from anywhere: an address, or a whole path."""
    return str(given) if is_stored(given) else str(Path(given).resolve())


def require_address(url: str, where: Place | None = None) -> str:
    """Return an address without a slash at its end; SpecError where it holds more than bucket and name."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc or "?" in url or "#" in url:
        hint = "write `scheme://bucket/name`; keys come from the environment, or from your own settings"
        message = f"the address `{shown}` holds more than a bucket and a name"
        raise SpecError("E117", message, where=where, hint=hint)
    climbs = not {".", ".."}.isdisjoint(parts.path.split("/"))
    if not parts.netloc or not parts.path.strip("/") or "//" in parts.path or climbs:
        raise SpecError("E108", f"`{url}` names no object", where=where, hint="write `scheme://bucket/name`")
    return url.rstrip("/")


@dataclass(frozen=True)
class StoredObject:
    """An object as it is at one moment; `mark` is another one when the content is."""

    url: str
    size: int
    mark: str

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` on, before `stop`; DataError E214 when the object has changed."""
        store, path = open_store(self.url)
        raw = store.read(path, self.mark, start, stop)
        if len(raw) != stop - start:
            raise refuse(self.url, *_CHANGED)
        return raw

    def require_unchanged(self) -> None:
        """Raise DataError E214 when the object is not there any more, or is another one."""
        if look_up(self.url).mark != self.mark:
            raise refuse(self.url, *_CHANGED)

    def iterate(self) -> Iterator[bytes]:
        """Yield the whole content in blocks; a few of them are in memory."""
        with ThreadPoolExecutor(AHEAD) as pool:
            waiting: list[Future[bytes]] = []
            for start in range(0, self.size, BLOCK):
                waiting.append(pool.submit(self.read, start, min(start + BLOCK, self.size)))
                if len(waiting) == AHEAD:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()

    def digest(self) -> str:
        """Return the sha256 of the content, which is read for that."""
        found = sha256()
        for block in self.iterate():
            found.update(block)
        return found.hexdigest()


def look_up(url: str) -> StoredObject:
    """Return the object at an address as it is now; DataError E214 when there is none."""
    found = find_object(url)
    if found is not None:
        return found
    if list_objects(url):
        raise refuse(url, "is a folder", "name one file; Parquet takes any number of rows")
    raise refuse(url, "is not there", "check the address; names are told apart by case")


def find_object(url: str) -> StoredObject | None:
    """Return the object at an address as it is now; None when there is none, E214 when that is not known."""
    store, path = open_store(url)
    found = store.look_up(path)
    return None if found is None else replace(found, url=url)


def list_objects(url: str) -> list[StoredObject]:
    """Return the objects below an address, at any depth, by name; none when there is nothing."""
    store, path = open_store(url)
    return store.find(path)


def put_object(url: str, content: bytes | Path) -> None:
    """Write an object, whole or not at all, in place of what is there."""
    store, path = open_store(url)
    store.put(path, content)


def remove_objects(urls: list[str]) -> None:
    """Remove objects, if they are there."""
    for url in urls:
        store, path = open_store(url)
        store.remove(path)


def put_new(url: str, content: bytes, *, in_place_of: str | None = None) -> str | None:
    """Write an object only if none is there, or the one with a mark; return its mark, None if it is not so.

    A store that knows no such condition writes it in any case: read it again to see whose it is.
    """
    store, path = open_store(url)
    return store.put_new(path, content, in_place_of)


def refuse(url: str, message: str, hint: str | None = None) -> DataError:
    """Return the error about what cannot be had, without what may be secret in its address."""
    shown = hide_query(url)
    return DataError("E214", f"`{shown}` {message}", where=Place(file=shown), hint=hint)


def open_store(url: str) -> tuple[Store, str]:
    """Return the store of an address as the environment says, opened once, and where the object is in it."""
    scheme, _, path = url.partition("://")
    scheme = scheme.lower()
    if scheme not in STORES:
        message = f"`{url}` is on no storage that is known"
        raise SpecError("E108", message, hint=f"schemes: {listing(STORES)}")
    settings = tuple(sorted(pair for pair in os.environ.items() if pair[0].startswith(_SETTINGS)))
    key = (STORES[scheme], os.getpid(), settings)
    with _opening:
        if key not in _opened:
            for name in _SECRETS:
                Secret(os.environ.get(name, ""), "caller")
            _opened[key] = STORES[scheme]()
        return _opened[key], path


class Store:
    """A store that fsspec knows; every error is DataError E214, and says what to do."""

    scheme: ClassVar[str] = ""
    library: ClassVar[str] = ""
    #: What to do when there is no connection.
    settings: ClassVar[str | None] = None

    def __init__(self) -> None:
        self._foreign: tuple[type[BaseException], ...] = (OSError, ValueError)
        try:
            importlib.import_module(self.library)
            fsspec = importlib.import_module("fsspec")
        except ImportError:
            need = f"addresses `{self.scheme}://…` need the package `{self.library}`"
            message = f"{need}, which is not installed"
            raise DataError("E214", message, hint=f"pip install {self.library}") from None
        try:
            self._files: Any = self._connect(fsspec)
        except self._foreign as error:
            message = f"cannot connect to the store: {_shorten(error)}"
            raise DataError("E214", message, hint=self.settings) from None

    def look_up(self, path: str) -> StoredObject | None:
        """Return an object; None when there is none, though its bucket is there."""
        told = self._ask(path, self._files.info)
        return self._describe(path, told) if told.get("type") == "file" else None

    def _ask(self, path: str, ask: Callable[..., Any], **options: object) -> Mapping[str, Any]:
        """Return what the library says of a path; nothing where there is none, though its bucket is there."""
        with self._translated(path):
            try:
                told: Mapping[str, Any] = ask(path, **options)
            except FileNotFoundError as error:
                if _read_code(error) == _NO_BUCKET:
                    raise
                return {}
        return told

    def find_scan_options(self, path: str) -> dict[str, Any] | None:  # noqa: ARG002 - other stores look at it
        """Return the options by which Polars reads an object as this store does; None if it cannot."""
        return None

    def find(self, path: str) -> list[StoredObject]:
        """Return the objects below a path, by name."""
        base, found = f"{path.strip('/')}/", self._ask(path, self._files.find, detail=True)
        names = {name.strip("/"): told for name, told in found.items()}
        return [self._describe(name, told) for name, told in sorted(names.items()) if name.startswith(base)]

    def _describe(self, path: str, told: Mapping[str, Any]) -> StoredObject:
        marks = (told.get(name) for name in ("ETag", "etag", "generation", "mtime", "created"))
        mark = str(next((one for one in marks if one), ""))
        return StoredObject(f"{self.scheme}://{path}", int(told["size"]), mark)

    def read(self, path: str, mark: str, start: int, stop: int) -> bytes:
        """Return a range of an object that has the mark; E214 when it has another."""
        with self._translated(path):
            raw: bytes = self._files.cat_file(path, start=start, end=stop)
        found = self.look_up(path)
        if found is None or found.mark != mark:
            raise refuse(f"{self.scheme}://{path}", *_CHANGED)
        return raw

    def put(self, path: str, content: bytes | Path) -> None:
        """Write an object whole."""
        with self._translated(path):
            if isinstance(content, Path):
                self._files.put_file(str(content), path)
            else:
                self._files.pipe_file(path, content)

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

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with self._translated(path), suppress(FileNotFoundError):
            self._files.rm_file(path)

    def _connect(self, library: Any) -> Any:  # noqa: ANN401 - a foreign library and its class
        return library.filesystem(self.scheme, skip_instance_cache=True, use_listings_cache=False)

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except self._foreign as error:
            raise self.refuse(path, error) from None

    def refuse(self, path: str, error: BaseException) -> DataError:
        """Return E214 for what a library says about an object."""
        return refuse(f"{self.scheme}://{path}", *self._explain(error))

    def _explain(self, error: BaseException) -> tuple[str, str | None]:
        """Return what an error of a library means, and what to do about it."""
        if _read_code(error) == _NO_BUCKET:
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
    settings = "look at the `AWS_…` variables of the environment, and at your AWS settings"

    def look_up(self, path: str) -> StoredObject | None:
        """Return an object; None when there is none, though its bucket is there."""
        bucket, _, key = path.partition("/")
        with self._translated(path):
            try:
                told = self._files.call_s3("head_object", Bucket=bucket, Key=key)
            except FileNotFoundError:
                # A HEAD says nothing more: a listing tells a missing bucket from a missing object.
                self._files.call_s3("list_objects_v2", Bucket=bucket, Prefix=key, MaxKeys=1)
                return None
        return StoredObject(f"s3://{path}", int(told["ContentLength"]), str(told["ETag"]))

    def read(self, path: str, mark: str, start: int, stop: int) -> bytes:
        """Return a range of an object that has the mark; E214 when it has another."""
        bucket, _, key = path.partition("/")
        span = f"bytes={start}-{stop - 1}"

        async def fetch() -> bytes:
            reply = await self._files._call_s3(  # noqa: SLF001 - the call that the library itself makes
                "get_object", Bucket=bucket, Key=key, Range=span, IfMatch=mark
            )
            async with reply["Body"] as body:
                return bytes(await body.read())

        with self._translated(path):
            for left in reversed(range(TRIES)):
                try:
                    return bytes(self._sync(self._files.loop, fetch))
                except self._broken:  # in the middle of the body, where the library does not try again
                    if not left:
                        raise
        raise AssertionError

    def put_new(self, path: str, content: bytes, mark: str | None) -> str | None:
        """Write an object if there is none, or the one with a mark; return its mark, None if it is not so."""
        bucket, _, key = path.partition("/")
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

    def _connect(self, library: Any) -> Any:  # noqa: ANN401 - a foreign library and its class
        errors: Any = importlib.import_module("botocore.exceptions")
        web: Any = importlib.import_module("aiohttp")
        self._errors = errors
        self._foreign = (*self._foreign, errors.BotoCoreError, web.ClientError)
        self._broken = (web.ClientPayloadError, errors.HTTPClientError, errors.IncompleteReadError)
        self._sync: Callable[..., Any] = importlib.import_module("fsspec.asyn").sync
        limits = {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retries": {"total_max_attempts": TRIES, "mode": "standard"},
        }
        files = library.filesystem(
            "s3", skip_instance_cache=True, use_listings_cache=False, config_kwargs=limits
        )
        files.retries = 1  # the client tries again by itself, and its tries are counted

        files.connect()
        self._find_keys(files)
        self._regions: dict[str, str] = {}
        return files

    def _find_keys(self, files: Any) -> tuple[str, ...]:  # noqa: ANN401 - a foreign library's class
        """Return key, secret and token as the library found them, all of which must never be shown."""

        async def find() -> Any:  # noqa: ANN401 - a foreign library's class
            found = await files.session.get_credentials()
            return None if found is None else await found.get_frozen_credentials()

        found = None if files.key else self._sync(files.loop, find)
        stated = (files.key, files.secret, files.token)
        keys = (found.access_key, found.secret_key, found.token) if found else stated
        for text in keys:
            Secret(text or "", "caller")
        return tuple(text or "" for text in keys)

    def find_scan_options(self, path: str) -> dict[str, Any] | None:
        """Return the keys and the host of the library; None where certificates of one's own are needed."""
        files, bucket = self._files, path.partition("/")[0]
        meta = files._s3.meta  # noqa: SLF001 - asked of the client itself
        endpoint, region = str(meta.endpoint_url), str(meta.region_name)
        if endpoint.startswith("https://") and files.session.get_config_variable("ca_bundle"):
            return None
        if str(urlsplit(endpoint).hostname).endswith(".amazonaws.com"):
            # Where the library is sent on to the region of a bucket, Polars has to be told.
            if bucket not in self._regions:
                with suppress(*self._foreign):
                    told = files.call_s3("head_bucket", Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
                    self._regions[bucket] = str(told["x-amz-bucket-region"])
            own = self._regions.get(bucket, region)
            is_regional = region in endpoint
            endpoint = endpoint.replace(region, own) if is_regional else f"https://s3.{own}.amazonaws.com"
            region = own
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        keys = dict(zip(names, self._find_keys(files), strict=True))
        return {
            **({"aws_skip_signature": "true"} if files.anon else {k: v for k, v in keys.items() if v}),
            "aws_endpoint_url": endpoint,
            "aws_region": region,
            "aws_allow_http": "true" if endpoint.startswith("http://") else "false",
            "max_retries": TRIES - 1,
            "connect_timeout": f"{CONNECT_SECONDS}s",
            "read_timeout": f"{READ_SECONDS}s",
            "timeout": f"{TRANSFER_SECONDS}s",
        }

    def _explain(self, error: BaseException) -> tuple[str, str | None]:
        """Return what an error of the library means, and what to do about it."""
        kinds = self._errors
        if _read_code(error) == "PreconditionFailed":
            return _CHANGED
        if isinstance(error, kinds.NoCredentialsError | kinds.PartialCredentialsError):
            keys = "set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `AWS_PROFILE`"
            hint = f"{keys}; `FSSPEC_S3_ANON=true` reads public data without any"
            return "cannot be read: there are no credentials", hint
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
    settings = "look at `GOOGLE_APPLICATION_CREDENTIALS`, and at your Google settings"

    def _connect(self, library: Any) -> Any:  # noqa: ANN401 - a foreign library and its class
        web: Any = importlib.import_module("aiohttp")
        keys: Any = importlib.import_module("google.auth.exceptions")
        calls: Any = importlib.import_module("gcsfs.retry")
        self._foreign = (*self._foreign, web.ClientError, keys.GoogleAuthError, calls.HttpError)
        return super()._connect(library)


#: Kinds of stores by the scheme of their addresses.
STORES: dict[str, type[Store]] = {"s3": S3Store, "gs": GoogleStore}
_opened: dict[tuple[object, ...], Store] = {}
_opening = threading.Lock()


def _read_code(error: BaseException) -> str | None:
    """Return the code of S3 behind an error, as the library keeps it."""
    response = getattr(error.__cause__, "response", None) or {}
    code = response.get("Error", {}).get("Code")
    return None if code is None else str(code)


def _shorten(error: BaseException) -> str:
    """Return the first line of what a library says."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return text.partition("\n")[0] or type(error).__name__


def refuse_large(url: str, size: int, most: int) -> DataError:
    """Return the error about a file of more bytes than may be fetched."""
    hint = f"allow more with `max_megabytes: {size // MEGABYTE + 1}`"
    return refuse(url, f"is larger than {most // MEGABYTE:,} MB", hint)


def is_offline() -> bool:
    """Return whether the caller wants nothing fetched."""
    return os.environ.get(OFFLINE, "0").strip().lower() not in {"", "0", "false", "no", "off"}


def allow_fetching(*hosts: str) -> None:
    """Let files be fetched from hosts of this machine and its network: the caller named them, or a URL."""
    _callers_hosts.update(hosts)


def is_allowed(url: str) -> bool:
    """Return whether the caller named the host of an address, or allowed it in the environment."""
    return Caller.of_process(_callers_hosts).allows(url)


def hide_query(url: str) -> str:
    """Return an address without its query and fragment, which may hold a key, or a password."""
    return hide_secrets(re.split("[?#]", url, maxsplit=1)[0])


def is_safe(url: str) -> bool:
    """Return whether nobody on the way can read or change what is fetched; False for what is no address."""
    with suppress(ValueError):
        scheme = urlsplit(url).scheme
        return scheme == "https" or (scheme == "http" and is_loopback(url))
    return False


def open_cache_folder(name: str) -> Path:
    """Return a folder of the user's cache; it is made when something is written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "answerkey" / name


@dataclass(frozen=True)
class Fetched:
    """A file on this machine, with the hash of its content."""

    path: Path
    digest: str


def open_object(url: str) -> StoredObject:
    """Return the object of a dataset as it is now; E214 when there is none, or nothing is to be fetched."""
    require_address(url)
    if is_offline():
        raise refuse(url, "is on shared storage, and nothing is fetched now", f"unset `{OFFLINE}`")
    return look_up(url)


def fetch_object(stored: StoredObject, endings: str, max_bytes: int | None = None) -> Fetched:
    """Return an object of shared storage as a file of this machine; `endings` are those of its name."""
    if max_bytes is not None and stored.size > max_bytes:
        raise refuse_large(stored.url, stored.size, max_bytes)
    note = _find_note(stored)
    found = find_content(str(read_note(note).get("sha256")), endings)
    if found is None:
        found = store_content(endings, stored.iterate())
        keep_note(note, {"sha256": found.digest})
    return found


def find_digest(stored: StoredObject) -> str:
    """Return the sha256 of an object's bytes; it is read once as long as it stays the same."""
    note = _find_note(stored)
    digest = read_note(note).get("sha256")
    if not isinstance(digest, str):
        digest = stored.digest()
        with suppress(OSError):  # where nothing can be written it is read again the next time
            keep_note(note, {"sha256": digest})
    return digest


def digest_file(path: str | Path) -> str:
    """Return the sha256 of the bytes of a file, here or on shared storage."""
    if isinstance(path, str) and is_stored(path):
        return find_digest(open_object(path))
    with Path(path).open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def store_content(endings: str, blocks: Iterable[bytes]) -> Fetched:
    """Write a content into the cache under its hash, whole or not at all."""
    folder = open_cache_folder("downloads")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".draft-", dir=folder)
    try:
        digest = sha256()
        with os.fdopen(handle, "wb") as out:
            for block in blocks:
                digest.update(block)
                out.write(block)
        path = folder / f"{digest.hexdigest()}{endings}"
        Path(name).replace(path)
        return Fetched(path, digest.hexdigest())
    finally:
        Path(name).unlink(missing_ok=True)


def find_content(digest: str, endings: str) -> Fetched | None:
    """Return a content by its hash; one that does not have it any more is deleted."""
    path = open_cache_folder("downloads") / f"{digest}{endings}"
    with suppress(OSError):
        if digest_file(path) == digest:
            return Fetched(path, digest)
        path.unlink()
    return None


def name_note(mark: str) -> Path:
    """Return the file that holds what was found at an address."""
    return open_cache_folder("downloads") / "urls" / f"{sha256(mark.encode()).hexdigest()}.json"


def _find_note(stored: StoredObject) -> Path:
    return name_note(f"{stored.url} {stored.size} {stored.mark}")


def read_note(path: Path) -> dict[str, Any]:
    """Return what was written down about an address; nothing where there is no such note."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def keep_note(path: Path, note: Mapping[str, object]) -> None:
    """Write down what was found at an address."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(note), encoding="utf-8")
    temporary.replace(path)
