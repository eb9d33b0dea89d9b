"""Laws of names and configs: what they mean, which hosts may have a key, what is sent."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.servers import connect

from answerkey.errors import SpecError
from answerkey.models.config import (
    Adapter,
    Address,
    Caller,
    CustomConfig,
    Generation,
    ModelConfig,
    ProviderConfig,
    Secret,
    check_url,
    is_loopback,
    read_name,
)
from answerkey.models.names import PROVIDERS, complete_name
from answerkey.models.providers import Connection

KEY = "sk-canary-0123456789"
KEYED = ("OPENAI", "ANTHROPIC", "GEMINI", "TOGETHER", "AZURE")
KEYS = {f"{name}_API_KEY": f"{KEY}-{name}" for name in KEYED}
MINE = Secret(KEY, "caller")
EVIL, LAB = "https://evil.example/v1", "https://lab.example/v1"


def reach(name: str, **environment: str) -> Connection:
    """Return the connection of a name that the caller wrote."""
    return connect(name, caller=Caller(environment))


def refuse(model: str | ModelConfig, caller: Caller | None = None) -> SpecError:
    """Return the error of a model that cannot be connected; no key is in it."""
    with pytest.raises(SpecError) as caught:
        connect(model, caller=caller or Caller(KEYS))
    assert "canary" not in str(caught.value)
    return caught.value


def provided(
    url: str | None = None,
    *,
    key: Secret | None = None,
    is_callers: bool = False,
    caller: Caller | None = None,
) -> ModelConfig:
    """Return a model of OpenAI as a project file defines it."""
    base = None if url is None else Address(url, is_callers)
    return ModelConfig("m", ProviderConfig("openai", "x", key, base), caller=caller or Caller(KEYS))


def custom(url: str, *, key: Secret | None = None, **more: object) -> ModelConfig:
    """Return a model behind a URL as a project file defines it."""
    config = CustomConfig(Address(url), api_key=key, **more)  # type: ignore[arg-type]  # its fields
    return ModelConfig("m", config, caller=Caller(KEYS))


@pytest.mark.parametrize(
    ("name", "url", "header"),
    [
        ("openai/gpt-4.1-nano", "https://api.openai.com/v1/chat/completions", "Authorization"),
        ("openai/x?api=completions", "https://api.openai.com/v1/completions", "Authorization"),
        ("anthropic/claude", "https://api.anthropic.com/v1/messages", "x-api-key"),
        (
            "gemini/gemini-flash",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-flash:generateContent",
            "x-goog-api-key",
        ),
        ("together/meta/llama", "https://api.together.xyz/v1/chat/completions", "Authorization"),
        ("fireworks/a/b", "https://api.fireworks.ai/inference/v1/chat/completions", None),
        ("sambanova/x", "https://api.sambanova.ai/v1/chat/completions", None),
        ("novita/x", "https://api.novita.ai/openai/v1/chat/completions", None),
        ("groq/openai/gpt-oss-20b", "https://api.groq.com/openai/v1/chat/completions", None),
        ("mistral/x", "https://api.mistral.ai/v1/chat/completions", None),
        ("deepseek/x", "https://api.deepseek.com/v1/chat/completions", None),
        ("openrouter/a/b", "https://openrouter.ai/api/v1/chat/completions", None),
        ("xai/grok", "https://api.x.ai/v1/chat/completions", None),
        ("cohere/x", "https://api.cohere.ai/compatibility/v1/chat/completions", None),
        ("perplexity/sonar", "https://api.perplexity.ai/chat/completions", None),
        ("cerebras/x", "https://api.cerebras.ai/v1/chat/completions", None),
        ("nvidia/a/b", "https://integrate.api.nvidia.com/v1/chat/completions", None),
        ("huggingface/a/b:fast", "https://router.huggingface.co/v1/chat/completions", None),
    ],
)
def test_providers_have_their_urls_and_keys(name: str, url: str, header: str | None) -> None:
    """A provider's model is called at its own URL, with the key of its own variable in its own
    header.
    """
    connection = connect(name, caller=Caller(KEYS))
    assert connection.url == url
    assert connection.headers.get("anthropic-version") == (
        "2023-06-01" if "claude" in name else None
    )
    provider = name.partition("/")[0].upper()
    sent = connection.reveal_headers()
    if header is None:
        variable = PROVIDERS[provider.lower()].key or f"{provider}_API_KEY"
        assert (connection.missing_key, sent) == (variable, {})
    else:
        assert sent[header].removeprefix("Bearer ") == f"{KEY}-{provider}"
        assert sent[header].startswith("Bearer ") == (header == "Authorization")


@pytest.mark.parametrize(
    ("name", "variable"),
    [("huggingface/a/b", "HF_TOKEN"), ("bedrock/x", "AWS_BEARER_TOKEN_BEDROCK")],
)
def test_some_keys_have_a_usual_name(name: str, variable: str) -> None:
    """It is read where `<PROVIDER>_API_KEY` is not set, which wins."""
    values = {"BEDROCK_BASE_URL": "https://b.example/openai/v1", variable: f"{KEY}-1"}
    assert connect(name, caller=Caller(values)).reveal_headers() == {
        "Authorization": f"Bearer {KEY}-1"
    }
    both_set = {**values, f"{name.partition('/')[0].upper()}_API_KEY": f"{KEY}-2"}
    assert connect(name, caller=Caller(both_set)).reveal_headers() == {
        "Authorization": f"Bearer {KEY}-2"
    }


@pytest.mark.parametrize(
    ("name", "values", "source"),
    [
        ("openai/x", {}, "the environment variable `OPENAI_API_KEY`"),
        ("huggingface/a", {}, "the environment variable `HF_TOKEN`"),
        (
            "huggingface/a",
            {"HUGGINGFACE_API_KEY": KEY},
            "the environment variable `HUGGINGFACE_API_KEY`",
        ),
        ("ollama/x", {}, "the environment variable `OLLAMA_API_KEY`"),
        ("http://127.0.0.1:1/v1#x", {}, "the environment variable `ANSWERKEY_API_KEY`"),
        (
            "http://127.0.0.1:1/v1#x",
            {"OPENAI_API_KEY": KEY},
            "the environment variable `OPENAI_API_KEY`",
        ),
        ("https://lab.example/v1#x", {}, "the environment variable `ANSWERKEY_API_KEY`"),
        (provided(key=MINE), {}, "the model file"),
        (custom(LAB), {}, "the model file"),
    ],
)
def test_a_connection_names_where_its_key_belongs(
    name: str | ModelConfig, values: dict[str, str], source: str
) -> None:
    """It is the place that is read, whether a key is there or not."""
    assert connect(name, caller=Caller(values)).key_source == source


def test_the_usual_key_of_one_provider_does_not_go_to_another() -> None:
    """A file that names a provider's host for the key of another one is refused."""
    caller = Caller({"HF_TOKEN": KEY})
    config = CustomConfig(Address("https://api.x.ai/v1"), api_key=caller.find_key("HF_TOKEN"))
    assert refuse(ModelConfig("m", config, caller=caller), caller).code == "E117"


@pytest.mark.parametrize(
    ("name", "base", "url"),
    [
        ("openai/x", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions"),
        ("openai/x", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
        ("openai/x", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"),
        ("openai/x", "https://gate.example/openai", "https://gate.example/openai/chat/completions"),
        ("anthropic/x", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/messages"),
        ("anthropic/x", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/messages"),
        ("anthropic/x", "https://gate.example/claude", "https://gate.example/claude/v1/messages"),
        ("gemini/a/b", "http://[::1]:80", "http://[::1]:80/v1beta/models/a%2Fb:generateContent"),
    ],
)
def test_the_environment_overrides_base_urls(name: str, base: str, url: str) -> None:
    """`<PROVIDER>_BASE_URL` of the caller is followed, and the key goes there."""
    variable = f"{name.partition('/')[0].upper()}_BASE_URL"
    connection = connect(name, caller=Caller(KEYS | {variable: base}))
    assert connection.url == url
    assert any(KEY in text for text in connection.reveal_headers().values())


def test_azure_is_known_by_its_host_and_has_no_url_of_its_own() -> None:
    """A file that gives the URL of an Azure host has its key sent in `api-key`."""
    host = "https://r.openai.azure.com"
    connection = connect("azure/my gpt", caller=Caller(KEYS | {"AZURE_BASE_URL": host}))
    assert connection.url == f"{host}/openai/v1/chat/completions"
    assert connection.reveal_headers() == {"api-key": f"{KEY}-AZURE"}
    url = f"{host}/openai/deployments/d/chat/completions?api-version=2"
    assert connect(custom(url, key=Secret("k"))).reveal_headers() == {"api-key": "k"}
    error = refuse("azure/x")
    assert error.code == "E108"
    assert error.hint == "set `AZURE_BASE_URL` to the address of your resource"


@pytest.mark.parametrize(
    ("name", "environment", "sent"),
    [
        ("http://127.0.0.1:8000/v1#m", {}, None),
        ("http://127.0.0.1:8000/v1#m", KEYS, f"Bearer {KEY}-OPENAI"),
        ("http://127.0.0.1:8000/v1#m", KEYS | {"ANSWERKEY_API_KEY": "own-key"}, "Bearer own-key"),
        ("https://lab.example/v1#m", KEYS, None),
        ("https://lab.example/v1#m", KEYS | {"ANSWERKEY_API_KEY": "own-key"}, "Bearer own-key"),
        ("https://api.openai.com/v1#m", KEYS, f"Bearer {KEY}-OPENAI"),
        ("https://api.together.xyz/v1#m", KEYS, f"Bearer {KEY}-TOGETHER"),
        ("http://api.openai.com/v1#m", KEYS, None),
    ],
)
def test_the_key_sent_to_a_url(name: str, environment: dict[str, str], sent: str | None) -> None:
    """Its own variable.

    Else a provider's key only to that provider, and OpenAI's to this machine.
    """
    connection = connect(name, caller=Caller(environment))
    assert connection.reveal_headers().get("Authorization") == sent
    assert connection.model == "m"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("http://h/v1#m", "http://h/v1/chat/completions"),
        ("http://h#m", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions#m", "http://h/v1/chat/completions"),
        ("http://h/v1?api=completions#m", "http://h/v1/completions"),
        ("http://h/v1?api-version=1&max_tokens=3#m", "http://h/v1/chat/completions?api-version=1"),
        ("HTTP://h/v1#m/n#o", "http://h/v1/chat/completions"),
    ],
)
def test_endpoints_by_url(name: str, url: str) -> None:
    """A URL is a base URL; parameters of generation are taken out of it, `api-version` stays."""
    assert reach(name).url == url


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("http://h/v1", "model `{}` names no model at that address"),
        ("http://h/v1#", "model `{}` names no model at that address"),
        ("http://h/v1#m?seed=1", "model `{}` names no model at that address"),
        ("openai/", "unknown model `{}`"),
        ("openai/x?api=chatty", "model `{}`: unknown API 'chatty'"),
        ("openai/x?temprature=0", "model `{}` has no parameter `temprature`"),
        ("http://h/v1?topk=20#m", "model `{}` has no parameter `topk`"),
        ("openai/x?seed=1&seed=2", "model `{}`: a parameter is given more than once"),
        ("openai/x?temperature=-1", "model `{}`: `temperature` is '-1', not a number from 0 on"),
        ("openai/x?temperature=nan", "model `{}`: `temperature` is 'nan', not a number from 0 on"),
        ("openai/x?top_p=1.5", "model `{}`: `top_p` is '1.5', not a number from 0 to 1"),
        ("openai/x?max_tokens=0", "model `{}`: `max_tokens` is '0', not a whole number from 1 on"),
        ("openai/x?seed=x", "model `{}`: `seed` is 'x', not a whole number"),
        ("openai/x?stop=", "model `{}`: `stop` is '', not a text that is not empty"),
        ("openai/x?logprobs=yes", "model `{}`: `logprobs` is 'yes', not `true` or `false`"),
    ],
)
def test_names_that_cannot_be_read(name: str, message: str) -> None:
    """A name without a model, an unknown API or parameter, a value out of range is an error."""
    error = refuse(name)
    assert (error.code, error.message) == ("E301", message.format(name))


def test_a_missing_key_is_told_when_it_is_needed() -> None:
    """Connecting needs no key; calling the provider itself does, a server of one's own does not."""
    connection = reach("openai/x")
    with pytest.raises(SpecError) as caught:
        connection.require_key()
    assert caught.value.code == "E117"
    assert caught.value.message == "model `openai/x` needs a key, and `OPENAI_API_KEY` is not set"
    reach("openai/x", OPENAI_BASE_URL="http://127.0.0.1:1/v1").require_key()
    reach("http://127.0.0.1:1/v1#x").require_key()
    connect("openai/x", caller=Caller(KEYS)).require_key()


@pytest.mark.parametrize(
    "model",
    [
        provided(EVIL),
        provided("http://api.openai.com/v1"),
        provided("https://api.anthropic.com/v1"),
        provided(caller=Caller(KEYS | {"OPENAI_BASE_URL": EVIL}, frozenset({"OPENAI_BASE_URL"}))),
        custom(EVIL, key=MINE),
        custom(EVIL, headers={"X-Key": MINE}),
        custom(EVIL, key=MINE, adapter=Adapter("a", "{}", "{}")),
        custom("https://api.openai.com/v1", key=Secret(f"{KEY}-ANTHROPIC", "caller")),
        read_name(f"{EVIL}#m", caller=Caller({"ANSWERKEY_API_KEY": KEY}), is_callers=False),
    ],
)
def test_a_file_cannot_send_the_callers_key_elsewhere(model: ModelConfig) -> None:
    """A key of the caller does not go to a host that only a file of the project names."""
    error = refuse(model)
    host = "evil.example" if "evil" in error.message else error.message.split("`")[3]
    hint = f"if that host may have it, run again with `--allow-host {host}`"
    assert (error.code, error.hint) == ("E117", hint)
    if model == provided(EVIL):
        message = "a file of the project names the host `evil.example` for your `OPENAI_API_KEY`"
        assert error.message == f"model `m`: {message}"


THEIRS = Caller({"OPENAI_API_KEY": "theirs"}, frozenset({"OPENAI_API_KEY"}))


@pytest.mark.parametrize(
    ("model", "header"),
    [
        (provided(), f"Bearer {KEY}-OPENAI"),
        (provided("http://127.0.0.1:8/v1"), f"Bearer {KEY}-OPENAI"),
        (provided(LAB, is_callers=True), f"Bearer {KEY}-OPENAI"),
        (
            provided(LAB, caller=Caller(KEYS, allow_hosts=frozenset({"lab.example"}))),
            f"Bearer {KEY}-OPENAI",
        ),
        (provided(EVIL, key=Secret("theirs", "project")), "Bearer theirs"),
        (provided(EVIL, caller=THEIRS), "Bearer theirs"),
        (custom("https://api.openai.com/v1", key=MINE), f"Bearer {KEY}"),
        (custom(EVIL, key=Secret("theirs")), "Bearer theirs"),
        (custom(EVIL), None),
        (read_name(f"{EVIL}#m", caller=Caller(KEYS), is_callers=False), None),
    ],
)
def test_where_keys_may_go(model: ModelConfig, header: str | None) -> None:
    """The provider's host, this machine, hosts that the caller named or allowed.

    A project's key anywhere.
    """
    assert connect(model).reveal_headers().get("Authorization") == header


def is_refused(
    url: str, *, key: Secret = MINE, is_callers: bool = False, caller: Caller | None = None
) -> bool:
    """Return whether a key may not go to a URL; the provider's own host is `api.openai.com`."""
    try:
        connect(provided(url, key=key, is_callers=is_callers, caller=caller or Caller()))
    except SpecError as error:
        return error.code == "E117"
    return False


HERE = (
    "http://localhost:8000/v1",
    "http://LOCALHOST/v1",
    "http://localhost./v1",
    "http://127.0.0.1:8000/v1",
    "http://127.9.9.9/v1",
    "http://[::1]:8000/v1",
    "http://[::ffff:127.0.0.1]/v1",
    "https://127.0.0.1/v1",
)
OWN = ("https://api.openai.com/v1", "https://API.OPENAI.COM/v1", "https://api.openai.com:8443/v1")
OTHERS = (
    "https://evil.example/v1",
    "http://127.0.0.1.evil.example/v1",
    "http://localhost.evil.example/v1",
    "http://evil.example/127.0.0.1",
    "http://evil.example?127.0.0.1",
    "http://10.0.0.1/v1",
    "http://0.0.0.0/v1",
    "http://2130706433/v1",
    "http://[::2]/v1",
    "https://api.openai.com.evil.example/v1",
    "https://evil.example/api.openai.com",
    "https://xapi.openai.com/v1",
    "http://api.openai.com/v1",
)


def test_this_machine_and_the_providers_own_host_may_have_a_key() -> None:
    """Any other host that a file names is refused, also the provider's own without TLS."""
    assert [url for url in HERE if not is_loopback(url)] == []
    assert [url for url in (*HERE, *OWN) if is_refused(url)] == []
    assert [url for url in OTHERS if not is_refused(url)] == []
    # What the caller named is the caller's choice, and a key that the project brings is the
    # project's.
    assert not is_refused(EVIL, is_callers=True)
    assert not is_refused(EVIL, key=Secret("sk-theirs", "written"))
    assert not is_refused(EVIL, key=Secret("sk-theirs", "project"))


@pytest.mark.parametrize(
    ("allowed", "url", "refused"),
    [
        ("lab.example", "https://lab.example/v1", False),
        ("LAB.example.", "http://lab.example:8000/v1", False),
        ("lab.example:8000", "http://lab.example:8000/v1", False),
        ("lab.example:443", "https://lab.example/v1", False),
        ("lab.example:8000", "http://lab.example:9000/v1", True),
        ("[fe80::1]:8000", "http://[fe80::1]:8000/v1", False),
        ("lab.example", "https://sub.lab.example/v1", True),
        ("bücher.example", "https://xn--bcher-kva.example/v1", False),
        ("", "https://lab.example/v1", True),
    ],
)
def test_allowed_hosts(allowed: str, url: str, refused: bool) -> None:  # noqa: FBT001  # a table
    """`--allow-host` names a host, or a host and its port; nothing below it."""
    assert is_refused(url, caller=Caller(allow_hosts=frozenset({allowed}))) is refused


def test_hosts_can_be_allowed_in_the_environment() -> None:
    """`ANSWERKEY_ALLOW_HOSTS` lists hosts; a file of the project cannot set it."""
    environment = {"ANSWERKEY_ALLOW_HOSTS": "a.example, lab.example"}
    assert not is_refused(LAB, caller=Caller(environment))
    assert is_refused(LAB, caller=Caller(environment, project_names=frozenset(environment)))


INCOMPLETE = """
ftp://x.example/v1
x.example/v1
http://
http:///v1
http://x.example:99999/v1
http://x.example:0/v1
http://[::1/v1
http://x.example/a b
http://x.example\\y.example/
https://x.example/v1?temperature=0
http://{host}:8000/v1
http://{/v1
"""
LEAKY = """
https://user:hush@x.example/v1
https://127.0.0.1@evil.example/v1
https://x.example/v1?key=hush
https://x.example/v1?api_key=hush
https://x.example/v1?access_token=hush
https://x.example/v1?X-Amz-Signature=hush
https://x.example/v1?code=hush
"""
FINE = """
http://127.0.0.1:8000/v1
https://x.example/a@b?api-version=2024-10-21
http://[::1]
"""


def test_which_urls_can_be_called() -> None:
    """A URL is whole, and holds no secret; what it holds is not shown.

    Ports, paths and other parameters are fine.
    """
    broken = ["", "http://x.example/\nX-Evil: 1", *INCOMPLETE.strip().splitlines()]
    for urls, code in ((broken, "E108"), (LEAKY.strip().splitlines(), "E117")):
        for url in urls:
            with pytest.raises(SpecError) as caught:
                check_url(url, "m")
            assert caught.value.code == code
            assert "hush" not in str(caught.value)
    for url in FINE.split():
        assert check_url(url, "m") == url


def test_values_of_the_environment() -> None:
    """A blank value is not set; white space around a key is not part of it."""
    caller = Caller({"A": " hush \n", "B": " ", "C": "theirs"}, project_names=frozenset({"C"}))
    results = [caller.find_key(name) for name in "ABC"]
    expected = [("hush", "caller"), None, ("theirs", "project")]
    assert [secret and (secret.reveal(), secret.origin) for secret in results] == expected
    assert "hush" not in repr(caller)


def test_custom_connections() -> None:
    """The URL is the endpoint itself, or a base URL when it ends in a version; headers are sent."""
    headers = {"X-Tier": Secret("gold"), "X-Key": Secret("h" * 20)}
    config = CustomConfig(
        Address("https://x.example/v1/"), "n", api_key=Secret("k" * 20), headers=headers
    )
    connection = connect(ModelConfig("m", config, max_concurrent=3, requests_per_minute=60.0))
    assert connection.url == "https://x.example/v1/chat/completions"
    sent = {"Authorization": f"Bearer {'k' * 20}", "X-Tier": "gold", "X-Key": "h" * 20}
    assert connection.reveal_headers() == sent
    assert (connection.max_concurrent, connection.requests_per_minute) == (3, 60.0)
    for path in ("infer", "", "v1/chat/completions"):
        url = f"https://x.example/{path}"
        assert connect(custom(url)).url == url


def test_a_header_of_the_file_wins_over_the_key() -> None:
    """Where a file gives the header of the key itself, in any case, that one is sent.

    "" is no key.
    """
    model = custom(LAB, key=Secret("k"), headers={"authorization": Secret("Basic z")})
    assert connect(model).reveal_headers() == {"authorization": "Basic z"}
    assert connect(custom("http://h/v1", key=Secret(""))).reveal_headers() == {}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("X Key", "v", "E108"),
        ("Host", "v", "E108"),
        ("Content-Length", "3", "E108"),
        ("X-Key", "a\r\nX-Evil: 1", "E117"),
        ("X-Key", "a\nb", "E117"),
        ("X-Key", "a\0b", "E117"),
        ("X-Key", "schlüssel-canary", "E117"),
    ],
)
def test_headers_that_cannot_be_sent(name: str, value: str, code: str) -> None:
    """A header has a proper name and a plain value; the value is not shown."""
    assert refuse(custom("http://h/v1", headers={name: Secret(value)})).code == code


def test_models_without_an_endpoint() -> None:
    """A placeholder cannot be called."""
    placeholder = refuse(ModelConfig("m", None))
    assert placeholder.message == "model `m` is a placeholder: it cannot be called"


def test_what_is_given_is_what_is_set_and_the_nearer_wins() -> None:
    """Parameters that are not set are left to the endpoint; zero and false are set."""
    generation = Generation(temperature=0, stop=("\n", "Q:"), logprobs=False)
    assert generation.given() == {"temperature": 0, "stop": ["\n", "Q:"], "logprobs": False}
    nearer, farther = Generation(temperature=0), Generation(temperature=1, max_tokens=5)
    assert nearer.over(farther) == Generation(temperature=0, max_tokens=5)


def test_top_logprobs_ask_for_logprobs() -> None:
    """`top_logprobs` alone asks for log probabilities, unless `logprobs` is false."""
    assert Generation(logprobs=True).wants_logprobs
    assert all(Generation(top_logprobs=number).wants_logprobs for number in (3, 0))
    assert not Generation().wants_logprobs
    assert not Generation(logprobs=False, top_logprobs=3).wants_logprobs


def test_a_name_can_state_generation() -> None:
    """Every parameter can be written behind `?`."""
    numbers = {"temperature": "0.5", "top_p": "1", "max_tokens": "16", "seed": "-3", "stop": "\n"}
    texts = urlencode({**numbers, "logprobs": "true", "top_logprobs": "0"})
    result = Generation(0.5, 1, 16, -3, ("\n",), logprobs=True, top_logprobs=0)
    assert reach(f"openai/x?{texts}").generation == result
    assert reach(f"http://h/v1?{texts}#m").generation == result


# The table of providers: bare names, and servers of this machine.


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("gpt-4.1-nano", "openai/gpt-4.1-nano"),
        ("gpt-4.1-nano?temperature=0&stop=/", "openai/gpt-4.1-nano?temperature=0&stop=/"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("o1", "openai/o1"),
        ("o3-mini", "openai/o3-mini"),
        ("o4-mini?max_tokens=5", "openai/o4-mini?max_tokens=5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        # Others serve these, or nobody does.
        *(
            (name, name)
            for name in ("gpt-oss-20b", "gpt-oss:20b", "o1x", "o2-mini", "llama3.2", "my-gpt-4")
        ),
        *(
            (name, name)
            for name in ("openai/gpt-4", "ollama/gpt-4", "http://h/v1#gpt-4", "builtin/longest", "")
        ),
    ],
)
def test_a_bare_name_gets_its_provider(typed: str, name: str) -> None:
    """Where only one provider has models of such names; any other name stays as it is."""
    assert complete_name(typed) == name


def test_every_provider_is_documented() -> None:
    """The reference has each name with its base URL and its API."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "models.md").read_text()
    for name, provider in PROVIDERS.items():
        url = f"`{provider.base_url}`"
        if provider.base_url is None:
            url = f"yours, in `{name.upper()}_BASE_URL`"
        assert f"| `{name}` | {url} | `{provider.api}` |" in page


@pytest.mark.parametrize(
    ("name", "port"),
    [("ollama", 11434), ("vllm", 8000), ("lmstudio", 1234), ("llamacpp", 8080), ("sglang", 30000)],
)
def test_a_server_of_this_machine_is_called_at_its_usual_port(name: str, port: int) -> None:
    """Without a key, not even that of a provider.

    Its own is sent where it is set, and its URL may differ.
    """
    result = connect(
        f"{name}/meta-llama/Llama-3.1-8B", caller=Caller({"OPENAI_API_KEY": "sk-canary-1"})
    )
    assert result.url == f"http://127.0.0.1:{port}/v1/chat/completions"
    assert (result.model, result.missing_key) == ("meta-llama/Llama-3.1-8B", None)
    assert result.reveal_headers() == {}
    variables = {
        f"{name.upper()}_API_KEY": "sk-own-2",
        f"{name.upper()}_BASE_URL": "http://127.0.0.1:77",
    }
    result = connect(f"{name}/x", caller=Caller(variables))
    assert result.url == "http://127.0.0.1:77/v1/chat/completions"
    assert result.reveal_headers() == {"Authorization": "Bearer sk-own-2"}
