from __future__ import annotations

import operator
import pickle
from functools import partial
from typing import Any

from answerkey._version import __version__
from answerkey.engines.ray_engine import ActorObject
from answerkey.errors import EngineError


def ask(held: ActorObject, method: str, *given: object) -> Any:  # noqa: ANN401 - kind and value
    """Return the answer of an object."""
    return pickle.loads(held.call(method, pickle.dumps(given)))  # noqa: S301 - our own


def open_object(build: bytes, version: str = __version__) -> ActorObject:
    """Return an object as an actor holds it, on the node 10.0.0.7."""
    held = ActorObject()
    held.open(version, build, "10.0.0.7")
    return held


def test_an_object_is_built_with_the_address_of_its_node() -> None:
    """Its methods are called, and what they return or raise comes back."""
    held = open_object(pickle.dumps(partial(operator.add, "node ")))
    assert ask(held, "upper") == ("value", "NODE 10.0.0.7")
    kind, error = ask(held, "index", "x")
    assert (kind, type(error)) == ("error", ValueError)


def test_another_version_is_refused() -> None:
    """A node with another answerkey does nothing, and every call says so."""
    kind, error = ask(open_object(b"", "0.0.1"), "upper")
    assert kind == "error"
    assert isinstance(error, EngineError)
    assert error.code == "E601"


def test_what_a_node_does_not_have_is_named() -> None:
    """A package that is missing there is the answer."""
    build = pickle.dumps(operator.add).replace(b"_operator", b"_operatox")
    assert ask(open_object(build), "upper") == ("unknown", "No module named '_operatox'")


def test_what_cannot_be_built_is_the_answer_to_every_call() -> None:
    """An error is not lost because nobody waits for it."""
    kind, error = ask(open_object(pickle.dumps(int)), "bit_length")
    assert (kind, type(error)) == ("error", ValueError)
