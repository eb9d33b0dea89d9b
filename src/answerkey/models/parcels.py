"""What is sent to our processes on other machines, secrets included: the one way in which they travel."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from answerkey.errors import HIDDEN
from answerkey.models.secret import Secret

Content = TypeVar("Content")


@dataclass(frozen=True, repr=False)
class Parcel(Generic[Content]):
    """Something packed that can be pickled though it holds secrets; it shows nothing of itself."""

    packed: bytes

    @classmethod
    def pack(cls, content: Content) -> Self:
        """Return the parcel with this content."""
        stream = io.BytesIO()
        _Packer(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(content)
        return cls(stream.getvalue())

    def unpack(self) -> Content:
        """Return what is in it."""
        content: Content = pickle.loads(self.packed)  # noqa: S301 - packed by our own process
        return content

    def __repr__(self) -> str:
        return f"Parcel({HIDDEN})"


class _Packer(pickle.Pickler):
    """Packs secrets, too, which refuse to be pickled by anybody else."""

    def reducer_override(self, thing: object) -> Any:  # noqa: ANN401 - as in the base class
        if isinstance(thing, Secret):
            return Secret, (thing.reveal(), thing.origin)
        return NotImplemented
