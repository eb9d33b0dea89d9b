"""Objects on shared storage (`s3://…`, `gs://…`), and the user's cache of downloaded files.

Who may read, and which host is asked, is up to the caller: keys, region and endpoint come from the
environment and the user's own settings, never from a project. Stores are reached through fsspec,
and their libraries are imported for the first address that needs them. An object is read as it was
when it was looked up: if it has changed since, that is an error.

`$XDG_CACHE_HOME/answerkey/downloads` holds downloaded files, each named by its sha256, and below
`urls` a note of what was last seen at an address. The address may contain a key, so only its hash
is stored. All of it may be deleted.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from answerkey.errors import DataError, Place, SpecError, hide_secrets
from answerkey.models.config import Caller, Secret, is_loopback

#: Set to anything but `0`: nothing is fetched, and earlier downloads are used.
OFFLINE = "ANSWERKEY_OFFLINE"
MEGABYTE = 10**6
#: Bytes of one read.
BLOCK = 8 * 2**20
CONNECT_SECONDS = 5.0
#: Seconds without a byte.
READ_SECONDS = 20.0
TRIES = 3
_SETTINGS = ("AWS_", "FSSPEC_", "GOOGLE_", "GCSFS_", "STORAGE_EMULATOR_HOST")
_NO_BUCKET = "NoSuchBucket"
_CONFLICTS = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
#: The entries of fsspec that differ when the content does; the first that is set counts.
_MARKS = ("ETag", "etag", "generation", "mtime", "created")
_MISSING = ("is not there", "check the address; names are told apart by case")
_callers_hosts: set[str] = set()


def is_stored(name: str | Path) -> bool:
    """Return whether a name is an address on shared storage, of an object or a folder."""
    if isinstance(name, Path):
        return False
    scheme, _, _ = name.partition("://")
    return scheme != name and scheme.lower() in STORES


def name_lasting(name: str | Path) -> str:
    """Return a name that works from any folder: an address without secrets, or an absolute path."""
    if isinstance(name, Path) or "://" not in name:
        return str(Path(name).resolve())
    return name if is_stored(name) else hide_query(name)


def require_address(url: str, where: Place | None = None) -> str:
    """Return an address without a trailing slash.

    SpecError if it holds anything but a bucket and a name.
    """
    parts = urlsplit(url)
    hint = "write `scheme://bucket/name`"
    if "@" in parts.netloc or "?" in url or "#" in url:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        message = f"the address `{shown}` holds more than a bucket and a name"
        hint = f"{hint}; keys come from the environment, or from your own settings"
        raise SpecError(
            "E117",
            message,
            where=where,
            hint=hint,
        )
    path = parts.path.rstrip("/")
    names = path[1:].split("/")
    if not parts.netloc or not {"", ".", ".."}.isdisjoint(names):
        message = f"`{url}` names no object"
        raise SpecError(
            "E108",
            message,
            where=where,
            hint=hint,
        )
    return url.rstrip("/")


class StoredObject(NamedTuple):
    """An object as it is at one moment; `mark` changes when the content does."""

    url: str
    size: int
    mark: str

    def read(
        self,
        start: int,
        stop: int,
    ) -> bytes:
        """Return the bytes from `start` up to `stop`; DataError E214 if the object has changed."""
        with _reaching(self.url) as (files, path):
            raw = bytes(files.cat_file(path, start=start, end=stop))
        if len(raw) != stop - start or find_object(self.url) != self:
            hint = "start again when it is complete"
            raise refuse(self.url, "has changed while it was being read", hint)
        return raw

    def iterate(self) -> Iterator[bytes]:
        """Yield the content in blocks."""
        for start in range(0, self.size, BLOCK):
            yield self.read(start, min(start + BLOCK, self.size))


def find_object(url: str) -> StoredObject | None:
    """Return the object at an address as it is now, or None if its bucket does not hold it."""
    with _reaching(url) as (files, path):
        try:
            entry = files.info(path)
        except FileNotFoundError as error:
            if _read_code(error) == _NO_BUCKET:
                raise
            return None
    if entry["type"] != "file":
        return None
    return _describe(url, entry)


def list_objects(url: str) -> list[StoredObject]:
    """Return the objects below an address, at any depth, by name."""
    with _reaching(url) as (files, path):
        entries = files.find(path, detail=True)
    folder = f"/{path.strip('/')}/"
    objects = []
    for name, entry in sorted(entries.items()):
        _, is_below, below = f"/{name.strip('/')}".partition(folder)
        if is_below:
            objects.append(_describe(f"{url.rstrip('/')}/{below}", entry))
    return objects


def _describe(url: str, entry: Mapping[str, Any]) -> StoredObject:
    values = filter(None, map(entry.get, _MARKS))
    mark = str(next(values, ""))
    return StoredObject(url, int(entry["size"]), mark)


def put_object(url: str, content: bytes | Path) -> None:
    """Write an object, whole or not at all, replacing what is there."""
    with _reaching(url) as (files, path):
        if isinstance(content, Path):
            files.put_file(str(content), path)
        else:
            files.pipe_file(path, content)


def remove_objects(urls: Iterable[str]) -> None:
    """Remove the objects that are there."""
    for url in urls:
        with _reaching(url) as (files, path), suppress(FileNotFoundError):
            files.rm_file(path)


def put_new(
    url: str,
    content: bytes,
    *,
    in_place_of: str | None = None,
) -> str | None:
    """Write an object only if there is none, or only over the one with a mark.

    Return its new mark, or None if the condition does not hold. A store without such conditions
    always writes: read the object again to see whose it is.
    """
    options = {"mode": "create"}
    if in_place_of is not None:
        stored = find_object(url)
        if stored is None or stored.mark != in_place_of:
            return None
        options = {}
        if url.lower().startswith("s3:"):
            options = {"IfMatch": in_place_of}
    with _reaching(url) as (files, path):
        try:
            files.pipe_file(path, content, **options)
        except OSError as error:
            code = _read_code(error)
            if code in _CONFLICTS or isinstance(error, FileExistsError):
                return None
            if code != "NotImplemented":
                raise
            files.pipe_file(path, content)
    stored = find_object(url)
    return stored.mark if stored else None


def refuse(
    url: str,
    message: str,
    hint: str | None = None,
) -> DataError:
    """Return the error about an address, without what may be secret in it."""
    shown = hide_query(url)
    where = Place(shown)
    return DataError(
        "E214",
        f"`{shown}` {message}",
        where=where,
        hint=hint,
    )


class StoreKind(NamedTuple):
    """A kind of store that fsspec reaches: its library, and where its settings come from.

    `errors` of the libraries are neither OSError nor ValueError.
    """

    library: str
    settings: str = "the settings of the store"
    errors: tuple[str, ...] = ()


#: Kinds of stores by the scheme of their addresses.
STORES: dict[str, StoreKind] = {
    "s3": StoreKind(
        "s3fs",
        "the `AWS_…` variables of the environment, and your AWS settings",
        ("botocore.exceptions:BotoCoreError", "aiohttp:ClientError"),
    ),
    "gs": StoreKind(
        "gcsfs",
        "`GOOGLE_APPLICATION_CREDENTIALS`, and your Google settings",
        (
            "aiohttp:ClientError",
            "google.auth.exceptions:GoogleAuthError",
            "gcsfs.retry:HttpError",
        ),
    ),
}


#: The filesystem of fsspec for a kind of store, and the errors that its libraries raise.
Connection = tuple[Any, tuple[type[BaseException], ...]]


def _explain(error: BaseException, kind: StoreKind) -> tuple[str, str]:
    """Return what an error of a library means, and what to do about it."""
    code = _read_code(error)
    hint = f"look at the network, at {kind.settings}, and at the rights of the bucket"
    if code == _NO_BUCKET:
        return "cannot be had: there is no such bucket", "check the name of the bucket"
    if isinstance(error, FileNotFoundError):
        return _MISSING
    if "Credentials" in type(error).__name__:
        keys = "set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `AWS_PROFILE`"
        hint = f"{keys}; `FSSPEC_S3_ANON=true` reads public data without any"
        return "cannot be read: there are no credentials", hint
    if isinstance(error, PermissionError) or code in {"403", "SignatureDoesNotMatch"}:
        return f"cannot be had: the store refuses it ({_shorten(error)})", hint
    return f"cannot be had: no answer, or none that will do ({_shorten(error)})", hint


@lru_cache
def _connect(
    scheme: str,
    _pid: int,
    _settings: tuple[str, ...],
) -> Connection:
    """Return an open store, once for the settings that the environment has."""
    kind = STORES[scheme]
    try:
        importlib.import_module(kind.library)
    except ImportError:
        need = f"addresses `{scheme}://…` need the package `{kind.library}`"
        hint = f"pip install {kind.library}"
        raise DataError("E214", f"{need}, which is not installed", hint=hint) from None
    foreign = (OSError, ValueError, *map(resolve_name, kind.errors))
    try:
        files = _connect_s3() if scheme == "s3" else _open_files(scheme)
    except foreign as error:
        message = f"cannot connect to the store: {_shorten(error)}"
        raise DataError("E214", message, hint=f"look at {kind.settings}") from None
    return files, foreign


def _open_files(scheme: str, **options: object) -> Any:  # noqa: ANN401 - a class of a foreign library
    open_filesystem = resolve_name("fsspec:filesystem")
    return open_filesystem(
        scheme,
        skip_instance_cache=True,
        use_listings_cache=False,
        **options,
    )


def _connect_s3() -> Any:  # noqa: ANN401 - a class of a foreign library
    limits = {
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "retries": {"total_max_attempts": TRIES, "mode": "standard"},
    }
    files = _open_files("s3", config_kwargs=limits)
    # The client below retries by itself, and its tries are counted.
    files.retries = 1
    files.connect()
    _hide_keys(files)
    return files


def _hide_keys(files: Any) -> None:  # noqa: ANN401 - a class of a foreign library
    """Keep the keys that s3fs uses out of everything that is shown."""

    async def find_credentials() -> Any:  # noqa: ANN401 - same
        credentials = await files.session.get_credentials()
        return credentials and await credentials.get_frozen_credentials()

    values = (files.key, files.secret, files.token)
    if not files.key:
        synchronously = resolve_name("fsspec.asyn:sync")
        values = synchronously(files.loop, find_credentials) or values
    for value in filter(None, values):
        Secret(value, "caller")


@contextmanager
def _reaching(url: str) -> Iterator[tuple[Any, str]]:
    """Give the filesystem of fsspec for an address, and the path in it; its errors become E214."""
    scheme, _, path = url.partition("://")
    scheme = scheme.lower()
    names = [name for name in sorted(os.environ) if name.startswith(_SETTINGS)]
    settings = tuple(f"{name}={os.environ[name]}" for name in names)
    files, foreign = _connect(scheme, os.getpid(), settings)
    try:
        yield files, path
    except foreign as error:
        raise refuse(url, *_explain(error, STORES[scheme])) from None


def _read_code(error: BaseException) -> object:
    """Return the code of S3 behind an error of s3fs, or None."""
    response = getattr(error.__cause__, "response", None) or {}
    return response.get("Error", {}).get("Code")


def _shorten(error: BaseException) -> str:
    """Return the first line of a library's message."""
    text = str(getattr(error, "strerror", None) or error)
    first_line, _, _ = text.strip().partition("\n")
    return first_line or type(error).__name__


def refuse_large(
    url: str,
    size: int,
    limit: int,
) -> DataError:
    """Return the error about a file with more bytes than may be fetched."""
    hint = f"allow more with `max_megabytes: {size // MEGABYTE + 1}`"
    return refuse(url, f"is larger than {limit // MEGABYTE:,} MB", hint)


def is_offline() -> bool:
    """Return whether the caller wants nothing to be fetched."""
    setting = os.environ.get(OFFLINE, "").strip().lower()
    return setting not in {"", "0", "false", "no", "off"}


def allow_fetching(*hosts: str) -> None:
    """Allow downloads from hosts (or URLs) of this machine and its network: the caller named
    them.
    """
    _callers_hosts.update(hosts)


def is_allowed(url: str) -> bool:
    """Return whether the caller named the host of an address, or allowed it in the environment."""
    return Caller.of_process(_callers_hosts).allows(url)


def hide_query(url: str) -> str:
    """Return an address without its query, fragment and password, which may be secret."""
    bare, _, _ = url.partition("#")
    bare, _, _ = bare.partition("?")
    return hide_secrets(bare)


def is_safe(url: str) -> bool:
    """Return whether nobody on the way can read or change what is fetched: https, or loopback."""
    with suppress(ValueError):
        scheme = urlsplit(url).scheme
        return scheme == "https" or (scheme == "http" and is_loopback(url))
    return False


def open_cache_folder(name: str) -> Path:
    """Return a folder of the user's cache, which is made when something is written."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "answerkey" / name


class Fetched(NamedTuple):
    """A file on this machine, and the sha256 of its content."""

    path: Path
    digest: str


def open_object(url: str) -> StoredObject:
    """Return the object of a dataset as it is now; E214 if there is none, or when offline."""
    require_address(url)
    if is_offline():
        raise refuse(url, "is on shared storage, and nothing is fetched now", f"unset `{OFFLINE}`")
    stored = find_object(url)
    if stored is not None:
        return stored
    if list_objects(url):
        raise refuse(url, "is a folder", "name one file; Parquet takes any number of rows")
    raise refuse(url, *_MISSING)


def fetch_object(stored: StoredObject, max_bytes: int | None = None) -> Fetched:
    """Download an object, unless it is in the cache."""
    if max_bytes is not None and stored.size > max_bytes:
        raise refuse_large(stored.url, stored.size, max_bytes)
    endings = "".join(PurePosixPath(stored.url).suffixes)
    note = name_note(repr(stored))
    digest = read_note(note).get("sha256")
    content = find_content(str(digest), endings)
    if content is None:
        content = store_content(endings, stored.iterate())
        keep_note(note, {"sha256": content.digest})
    return content


def digest_file(path: str | Path) -> str:
    """Return the sha256 of a file, here or on shared storage."""
    if is_stored(path):
        return fetch_object(open_object(str(path))).digest
    with Path(path).open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def store_content(endings: str, blocks: Iterable[bytes]) -> Fetched:
    """Write a file into the cache under its hash, whole or not at all."""
    folder = open_cache_folder("downloads")
    folder.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=folder)
    try:
        digest = sha256()
        with os.fdopen(handle, "wb") as out:
            for block in blocks:
                digest.update(block)
                out.write(block)
        name = digest.hexdigest()
        path = folder / f"{name}{endings}"
        Path(draft).replace(path)
        return Fetched(path, name)
    finally:
        Path(draft).unlink(missing_ok=True)


def find_content(digest: str, endings: str) -> Fetched | None:
    """Return a file of the cache by its hash; a damaged one is deleted."""
    path = open_cache_folder("downloads") / f"{digest}{endings}"
    with suppress(OSError):
        if digest_file(path) == digest:
            return Fetched(path, digest)
        path.unlink()
    return None


def name_note(mark: str, folder: str = "downloads/urls") -> Path:
    """Return the file of the cache for a note about an address."""
    digest = sha256(mark.encode()).hexdigest()
    return open_cache_folder(folder) / f"{digest}.json"


def read_note(path: Path) -> dict[str, Any]:
    """Return a note about an address; an empty one if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
        return dict(json.loads(text))
    except (OSError, TypeError, ValueError):
        return {}


def keep_note(path: Path, note: Mapping[str, object]) -> None:
    """Write a note about an address."""
    path.parent.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(path)
