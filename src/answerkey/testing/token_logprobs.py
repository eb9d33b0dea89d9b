"""The log-probabilities that the test server sends: of the first token of a reply, or of an echoed text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from answerkey.testing.replies import Reply

#: Tokens of texts that nobody has given log-probabilities for: a word with the white space before it.
_PIECES = re.compile(r"\s*\S+|\s+")
_LIKELY, _UNLIKELY, _USUAL = -0.1, -3.0, -1.0


def write_chat_logprobs(body: Mapping[str, Any], reply: Reply) -> object:
    """Return `logprobs` of a chat completion; null when the reply has an empty mapping of them."""
    most = int(body.get("top_logprobs") or 0)
    if reply.logprobs is None:
        token, ranked = reply.text[:1], _guess(reply.text[:1])
    elif not reply.logprobs:
        return None
    else:
        token, ranked = _find_token(reply), dict(reply.logprobs)
    first = _write_token(token, ranked.get(token, _LIKELY))
    top = sorted(ranked.items(), key=lambda pair: -pair[1])[:most]
    return {"content": [{**first, "top_logprobs": [_write_token(*pair) for pair in top]}]}


def _guess(token: str) -> dict[str, float]:
    others = {letter: _UNLIKELY for letter in "ABCDEFGHIJ" if letter != token}
    return {token: _LIKELY} | others


def _find_token(reply: Reply) -> str:
    """Return the longest token with a log-probability that the text begins with; else its first piece."""
    known = sorted(reply.logprobs or (), key=len, reverse=True)
    first = _PIECES.match(reply.text)
    return next((one for one in known if one and reply.text.startswith(one)), first.group() if first else "")


def _write_token(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


def write_text_logprobs(body: Mapping[str, Any], reply: Reply) -> object:
    """Return `logprobs` of a text completion, of the echoed prompt as well if that is asked for.

    A prompt that ends in one of the reply's `logprobs` has that log-probability for its ending, spread evenly
    over its tokens; all other tokens of it have -1. Without `echo` the mapping is of the first token.
    """
    if reply.logprobs is not None and not reply.logprobs:
        return None
    prompt = str(body.get("prompt", "")) if body.get("echo") else ""
    tokens: list[tuple[str, float]] = []
    if prompt:
        tokens += _split_prompt(prompt, reply.logprobs or {})
    ranked = dict(reply.logprobs or _guess(reply.text[:1])) if not prompt else {}
    said = _PIECES.findall(reply.text) if prompt else [_find_token(reply)]
    tokens += [(token, ranked.get(token, _LIKELY)) for token in said]
    most = int(body.get("logprobs") or 0)
    top = dict(sorted(ranked.items(), key=lambda pair: -pair[1])[:most])
    offsets = [sum(len(token) for token, _ in tokens[:place]) for place in range(len(tokens))]
    return {
        "tokens": [token for token, _ in tokens],
        "token_logprobs": [None if prompt and not place else one for place, (_, one) in enumerate(tokens)],
        "top_logprobs": [
            top if not prompt and not place else {token: one} for place, (token, one) in enumerate(tokens)
        ],
        "text_offset": offsets,
    }


def _split_prompt(prompt: str, logprobs: Mapping[str, float]) -> list[tuple[str, float]]:
    ending = max((one for one in logprobs if one and prompt.endswith(one)), key=len, default="")
    start = [(piece, _USUAL) for piece in _PIECES.findall(prompt[: len(prompt) - len(ending)])]
    pieces = _PIECES.findall(ending)
    return start + [(piece, logprobs[ending] / len(pieces)) for piece in pieces]
