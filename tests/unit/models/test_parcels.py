from __future__ import annotations

import pickle

import pytest

from answerkey.models.actors import Payload
from answerkey.models.config import connect
from answerkey.models.settings import Caller, Secret

KEY = "sk-canary-0123456789"


def test_a_connection_arrives_with_its_key() -> None:
    """What is unpacked sends the same headers, and hides the same texts."""
    sent = connect("http://127.0.0.1:9/v1#m", caller=Caller({"ANSWERKEY_API_KEY": KEY}))
    payload = Payload.pack(sent)
    received = pickle.loads(pickle.dumps(payload)).unpack()  # noqa: S301 - our own
    assert received == sent
    assert received.reveal_headers()["Authorization"] == f"Bearer {KEY}"
    assert received.identity == sent.identity
    assert received.hide(f"it was {KEY}") == "it was ***"
    assert received.key.origin == "caller"


def test_a_parcel_shows_nothing() -> None:
    """However it is printed."""
    payload = Payload.pack(Secret(KEY))
    assert (repr(payload), str(payload), f"{[payload]}") == ("Payload(***)", "Payload(***)", "[Payload(***)]")


def test_nothing_else_packs_a_secret() -> None:
    """A secret that is pickled by chance is an error."""
    with pytest.raises(TypeError, match="a secret is not stored"):
        pickle.dumps(Secret(KEY))
