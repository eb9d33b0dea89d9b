"""Images in messages: values of a sample become parts of messages, in the form of each API.

    file, bytes, data URI, address ──► Image (type, size, sha256; or address) ──► part of a request

The first bytes decide what an image is, not its name; only PNG, JPEG, GIF and WebP are sent. A file
must be below the folder of its dataset, or below a folder that the caller names in
`ANSWERKEY_IMAGES`: a task from elsewhere must not be able to send pictures of this machine.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from answerkey.errors import SolverError
from answerkey.models.responses import Body, Fields, Messages, list_entries, read_text
from answerkey.templates import RowError

#: The maximum size of an image in bytes, and the maximum number of images in a prompt.
MAX_BYTES = 20_000_000
MAX_IMAGES = 100
#: The assumed tokens of an image in estimates; APIs count 85 to 1,600 and more.
IMAGE_TOKENS = 1_000
#: The environment variable that names additional folders of images.
FOLDERS = "ANSWERKEY_IMAGES"
#: Stands for addresses among the types of images that an API takes.
URL = "url"
_SIGNATURES = re.compile(
    rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8[79]a)|(?s:(?P<webp>RIFF....WEBP))"
)
TYPES = frozenset(f"image/{name}" for name in _SIGNATURES.groupindex)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
#: How those images begin in base64, as a dataset holds bytes, and a whole image in the text of a
#: value.
_ENCODED = re.compile(r"(data:[^,]*;base64,)|(?:iVBORw0KGg|/9j/|R0lGOD|UklGR)")
_SHOWN = re.compile(rf"(?:{_ENCODED.pattern})[A-Za-z0-9+/=]{{64,}}")
#: Every such text contains one of these.
_MARKS = (";base64,", "iVBORw0KGg", "/9j/", "R0lGOD", "UklGR")
#: An image in the body of a request.
_SENT = re.compile(rb"[A-Za-z0-9+/]{1024,}")
_HINT = "an image is a file, an `https://` address, a data URI in base64, or bytes"


class ImageError(RowError):
    """The error of one row whose image cannot be sent."""

    code = "E302"


class Image(Body):
    """A part of a message: `type`, with `media_type`, `size` and `sha256`, or with the `url`.

    These fields are stored, and are part of a call's key. The bytes are kept apart from them, in
    base64 or in a file that is read when they are sent. `kind` is the media type, or `url`.
    """

    def __init__(self, fields: Fields, content: str | Path) -> None:
        super().__init__({"type": "image", **fields})
        self.content = content
        self.kind = str(fields.get("media_type", URL))

    def encode(self) -> str:
        """Return the bytes in base64.

        Raises SolverError E302 if the file is no longer the one that was checked.
        """
        if isinstance(self.content, str):
            return self.content
        raw = b""
        if self.content.is_file():
            raw = self.content.read_bytes()
        if sha256(raw).hexdigest() != self["sha256"]:
            raise SolverError(
                "E302", f"the image `{self.content.name}` has changed since it was checked"
            )
        return b64encode(raw).decode()

    @property
    def address(self) -> str:
        """The address, or a data URI with the bytes."""
        if URL in self:
            return self.encode()
        return f"data:{self.kind};base64,{self.encode()}"


# Values of a row become images.


def find_folders(*files: str | None) -> list[Path]:
    """Return the folders that may hold images: those of these files, and those that the caller
    names.
    """
    folders = []
    for file in files:
        if file and Path(file).is_file():
            folders.append(Path(file).parent.resolve())
    names = os.environ.get(FOLDERS, "")
    for name in filter(None, names.split(os.pathsep)):
        folders.append(Path(name).resolve())
    return folders


def resolve_images(messages: Sequence[Body], folders: Sequence[Path]) -> list[Body]:
    """Return messages in which each part with an image is an `Image`, without parts that are null.

    Such a part is `{type: image, image: VALUE}`, with the `column` of the value if known, or
    OpenAI's `{type: image_url, image_url: {url: …}}`. Raises ImageError.
    """
    resolved = [dict(message) for message in messages]
    for message in resolved:
        content = message["content"]
        if isinstance(content, list):
            parts = []
            for part in content:
                parts += _resolve_part(part, folders)
            if not parts:
                raise ImageError("a message has no content: its images are null")
            message["content"] = parts
        if message["role"] != "user" and list_images([message]):
            raise ImageError(
                "only the user's messages can have images", hint="no API takes them elsewhere"
            )
    count = len(list_images(resolved))
    if count > MAX_IMAGES:
        raise ImageError(f"the prompt has {count} images; {MAX_IMAGES} are allowed")
    return resolved


def _resolve_part(part: object, folders: Sequence[Path]) -> list[object]:
    """Return the parts that replace a part of a message: itself, its images, or none."""
    if not isinstance(part, Mapping) or part.get("type") not in ("image", "image_url"):
        return [part]
    values = part.get(part["type"])
    if not isinstance(values, list):
        values = [values]
    images: list[object] = []
    for value in values:
        # Hugging Face stores images as bytes with a path, OpenAI as an address with details.
        fields = value if isinstance(value, Mapping) else {"path": value}
        content = fields.get("bytes") or fields.get("path")
        content = content or fields.get(URL)
        if not content:
            continue
        try:
            image = _read_image(content, folders)
        except ImageError as problem:
            problem.column = part.get("column")
            raise
        if "detail" in fields:
            image["detail"] = fields["detail"]
        images.append(image)
    return images


def _read_image(value: object, folders: Sequence[Path]) -> Image:
    if not isinstance(value, str):
        raise ImageError(f"{value!r:.80} is not an image", hint=_HINT)
    if _ADDRESS.fullmatch(value):
        return Image({URL: value}, value)
    name = f"`{value:.80}`"
    content: str | Path
    try:
        encoded = _ENCODED.match(value)
        if encoded:
            text = value.removeprefix(encoded[1] or "")
            compact = "".join(text.split())
            raw = b64decode(compact, validate=True)
            content = b64encode(raw).decode()
        else:
            content = _find_file(value, folders)
            with content.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # an invalid name, a missing file, or invalid base64
        reason = getattr(error, "strerror", None) or error
        raise ImageError(f"the image {name} cannot be read: {reason}", hint=_HINT) from None
    if len(raw) > MAX_BYTES:
        raise ImageError(
            f"the image {name} has more than {MAX_BYTES:,} bytes", hint="make it smaller"
        )
    signature = _SIGNATURES.match(raw)
    if signature is None:
        raise ImageError(
            f"{name} is not a PNG, JPEG, GIF or WebP image",
            hint="its first bytes decide, not its name; convert it",
        )
    fields = {
        "media_type": f"image/{signature.lastgroup}",
        "size": len(raw),
        "sha256": sha256(raw).hexdigest(),
    }
    return Image(fields, content)


def _find_file(name: str, folders: Sequence[Path]) -> Path:
    """Return the file in one of the folders, following links; raise ImageError for one outside."""
    if len(name) > 4_096:  # noqa: PLR2004 - following it would take long
        raise ValueError("it is not a path")
    is_inside = False
    for folder in folders:
        path = (folder / name).resolve()
        if any(map(path.is_relative_to, folders)):
            is_inside = True
            if path.is_file():
                return path
    if is_inside:
        raise ValueError("there is no such file")
    raise ImageError(
        f"the image `{name:.80}` is not below the folder of its dataset",
        hint=f"put it there, or name its folder in the environment: `{FOLDERS}=FOLDER`",
    )


# Images become parts of requests, and texts for people.


def write_parts(message: Fields, api: str) -> str | list[object]:
    """Return the content of a message in the form of an API: a text, or parts if it has images.

    For Gemini, it is always parts.
    """
    content = message.get("content")
    parts: list[object] = []
    if not isinstance(content, list) or not list_images([message]):
        text = read_text(message)
        if api != "gemini":
            return text
        parts.append({"text": text})
        return parts
    for part in content:
        if isinstance(part, Image):
            parts.append(_write_image(part, api))
            continue
        written = {"text": read_text({"content": [part]})}
        if api == "anthropic":
            written["type"] = "text"
        parts.append(written)
    return parts


def _write_image(image: Image, api: str) -> object:
    if api == "gemini":
        data = {"mimeType": image.kind, "data": image.encode()}
        return {"inlineData": data}
    if api == "anthropic":
        source = {"type": "base64", "media_type": image.kind, "data": image.encode()}
        if image.kind == URL:
            source = {"type": URL, "url": image.address}
        return {"type": "image", "source": source}
    written = {"url": image.address}
    if "detail" in image:
        written["detail"] = str(image["detail"])
    return {"type": "image_url", "image_url": written}


def expand_images(messages: Messages) -> list[Body]:
    """Return messages in the form of OpenAI's chat API, which users' code gets too."""
    expanded = [dict(message) for message in messages]
    for message in expanded:
        content = message.get("content")
        if not isinstance(content, list):
            continue
        parts = []
        for part in content:
            parts.append(_write_image(part, "chat") if isinstance(part, Image) else part)
        message["content"] = parts
    return expanded


def list_images(messages: Messages) -> list[Image]:
    """Return the images in messages, in order."""
    return [part for part in list_image_parts(messages) if isinstance(part, Image)]


def count_characters(body: bytes) -> int:
    """Return the length of a request; an image counts as four characters for each assumed token."""
    length = len(body)
    if b"base64" in body or b"inlineData" in body:
        for image in _SENT.findall(body):
            length += 4 * IMAGE_TOKENS - len(image)
    return length


def list_image_parts(messages: Messages) -> list[Fields]:
    """Return the stored parts of the images in messages, in order."""
    images = []
    for message in messages:
        for part in list_entries(message.get("content")):
            if isinstance(part, Mapping) and part.get("type") == "image":
                images.append(part)
    return images


def describe_image(part: Fields) -> str:
    """Return a short description of a stored image."""
    if part.get(URL):
        return f"[image: {part[URL]}]"
    digest = str(part.get("sha256"))[:12]
    return f"[image: {part.get('media_type')}, {part.get('size')} bytes, sha256 {digest}]"


def describe_content(content: object) -> str | None:
    """Return the content of a message as text, with a line for each image; None without images."""
    if not list_image_parts([{"content": content}]):
        return None
    lines = []
    for part in list_entries(content):
        if not isinstance(part, Mapping):
            lines.append(str(part))
        elif part.get("type") == "image":
            lines.append(describe_image(part))
        else:
            lines.append(str(part.get("text")))
    return "\n".join(lines)


def hide_images(text: str) -> str:
    """Return the text of a value with images in base64 replaced by a description."""
    if not any(mark in text for mark in _MARKS):
        return text
    return _SHOWN.sub(_describe_encoded, text)


def _describe_encoded(value: re.Match[str]) -> str:
    size = len(value[0]) * 3 // 4
    return f"[image in base64: about {size:,} bytes]"
