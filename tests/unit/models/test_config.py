"""Laws of names and configs: what they mean, which hosts may have a key, what is sent beside the messages."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from answerkey.errors import SpecError
from answerkey.models.config import (
    Adapter,
    Address,
    Caller,
    CustomConfig,
    Generation,
    InferenceConfig,
    ModelConfig,
    PlaceholderConfig,
    ProviderConfig,
    Secret,
    check_url,
    is_loopback,
    read_name,
)
from answerkey.models.providers import Connection, connect
from answerkey.sandbox import Snippet

KEY = "sk-canary-0123456789"
KEYS = {f"{name}_API_KEY": f"{KEY}-{name}" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "TOGETHER", "AZURE")}


def reach(name: str, **environment: str) -> Connection:
    """Return the connection of a name that the caller wrote."""
    return connect(name, caller=Caller(environment))


def refuse(model: str | ModelConfig, caller: Caller | None = None) -> SpecError:
    """Return the error of a model that cannot be connected; no key is in it."""
    with pytest.raises(SpecError) as caught:
        connect(model, caller=caller or Caller(KEYS))
    assert "canary" not in str(caught.value)
    return caught.value


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
    ],
)
def test_providers_have_their_urls_and_keys(name: str, url: str, header: str | None) -> None:
    """A provider's model is asked at its own URL, with the key of its own variable in its own header."""
    connection = connect(name, caller=Caller(KEYS))
    assert connection.url == url
    provider = name.partition("/")[0].upper()
    sent = connection.reveal_headers()
    if header is None:
        assert connection.missing_key == f"{provider}_API_KEY"
        assert sent == {}
    else:
        start = "Bearer " if header == "Authorization" else ""
        assert sent[header] == f"{start}{KEY}-{provider}"


def test_anthropic_is_told_the_version() -> None:
    """The header that Anthropic's API asks for is sent."""
    assert reach("anthropic/claude").reveal_headers() == {"anthropic-version": "2023-06-01"}


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


@pytest.mark.parametrize(
    ("base", "version", "url"),
    [
        ("https://r.openai.azure.com", None, "https://r.openai.azure.com/openai/v1/chat/completions"),
        (
            "https://r.openai.azure.com",
            "2024-10-21",
            "https://r.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://r.openai.azure.com/?api-version=2",
            None,
            "https://r.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2",
        ),
    ],
)
def test_azure(base: str, version: str | None, url: str) -> None:
    """Azure takes its key in `api-key`; with an API version the deployment stands in the path."""
    environment = KEYS | {"AZURE_BASE_URL": base} | ({"AZURE_API_VERSION": version} if version else {})
    connection = connect("azure/my gpt", caller=Caller(environment))
    assert connection.url == url
    assert connection.reveal_headers() == {"api-key": f"{KEY}-AZURE"}


def test_azure_has_no_url_of_its_own() -> None:
    """Without `AZURE_BASE_URL` there is nobody to ask."""
    error = refuse("azure/x")
    assert (error.code, error.hint) == ("E108", "set `AZURE_BASE_URL` to the address of your resource")


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
def test_which_key_an_endpoint_by_url_is_sent(
    name: str, environment: dict[str, str], sent: str | None
) -> None:
    """Its own variable; else a provider's key only to that provider, and OpenAI's to this machine."""
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


def test_names_carry_generation() -> None:
    """Parameters of generation can be part of a name."""
    assert reach("openai/x?temperature=0&max_tokens=16").generation == Generation(
        temperature=0, max_tokens=16
    )
    assert reach("http://h/v1?seed=3#m").generation == Generation(seed=3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("http://h/v1", "model `http://h/v1` names no model at that address"),
        ("http://h/v1#", "model `http://h/v1#` names no model at that address"),
        ("openai/", "unknown model `openai/`"),
        ("openai/x?api=chatty", "model `openai/x?api=chatty`: unknown API 'chatty'"),
        ("openai/x?temprature=0", "model `openai/x?temprature=0` has no parameter `temprature`"),
        ("openai/x?seed=1&seed=2", "model `openai/x?seed=1&seed=2`: given more than once: `seed`"),
        ("http://h/v1?top_k=20#m", "model `http://h/v1?top_k=20#m` has no parameter `top_k`"),
        ("http://h/v1#m?seed=1", "model `http://h/v1#m?seed=1` has parameters behind the model's name"),
    ],
)
def test_names_that_are_not_complete(name: str, message: str) -> None:
    """A name without a model, with an unknown API or parameter is an error."""
    error = refuse(name)
    assert (error.code, error.message) == ("E301", message)


@pytest.mark.parametrize("name", ["seed=1", "logprobs=true", "top_logprobs=2"])
def test_what_an_api_does_not_have_is_refused(name: str) -> None:
    """Anthropic's API has no seed and no log probabilities; they are refused, not dropped."""
    error = refuse(f"anthropic/claude?{name}")
    assert error.code == "E108"
    assert error.message.endswith(f"its API does not take `{name.partition('=')[0]}`")


def test_a_missing_key_is_told_when_it_is_needed() -> None:
    """Connecting needs no key; asking the provider itself does, a server of one's own does not."""
    connection = reach("openai/x")
    with pytest.raises(SpecError) as caught:
        connection.require_key()
    assert caught.value.code == "E117"
    assert caught.value.message == "model `openai/x` needs a key, and `OPENAI_API_KEY` is not set"
    reach("openai/x", OPENAI_BASE_URL="http://127.0.0.1:1/v1").require_key()
    reach("http://127.0.0.1:1/v1#x").require_key()
    connect("openai/x", caller=Caller(KEYS)).require_key()


def by_file(
    config: ProviderConfig | CustomConfig, caller: Caller | None = None, **more: object
) -> ModelConfig:
    """Return a model as a project file defines it."""
    return ModelConfig("m", config, caller=caller or Caller(KEYS), **more)  # type: ignore[arg-type]


MINE = Secret(KEY, "caller")


@pytest.mark.parametrize(
    "model",
    [
        by_file(ProviderConfig("openai", "x", base_url=Address("https://evil.example/v1"))),
        by_file(ProviderConfig("openai", "x", base_url=Address("http://api.openai.com/v1"))),
        by_file(ProviderConfig("openai", "x", base_url=Address("https://api.anthropic.com/v1"))),
        by_file(CustomConfig(Address("https://evil.example/v1"), api_key=MINE)),
        by_file(CustomConfig(Address("https://evil.example/v1"), headers={"X-Key": MINE})),
        by_file(
            CustomConfig(Address("https://evil.example/v1"), api_key=MINE, adapter=Adapter("a", "{}", "{}"))
        ),
        by_file(
            CustomConfig(Address("https://api.openai.com/v1"), api_key=Secret(f"{KEY}-ANTHROPIC", "caller"))
        ),
        by_file(
            ProviderConfig("openai", "x"),
            Caller(KEYS | {"OPENAI_BASE_URL": "https://evil.example/v1"}, frozenset({"OPENAI_BASE_URL"})),
        ),
        read_name("https://evil.example/v1#m", caller=Caller({"ANSWERKEY_API_KEY": KEY}), is_callers=False),
    ],
)
def test_a_file_cannot_send_the_callers_key_elsewhere(model: ModelConfig) -> None:
    """A key of the caller does not go to a host that only a file of the project names."""
    error = refuse(model)
    host = "evil.example" if "evil" in error.message else error.message.split("`")[3]
    assert (error.code, error.hint) == (
        "E117",
        f"if that host may have it, run again with `--allow-host {host}`",
    )


@pytest.mark.parametrize(
    ("model", "header"),
    [
        (by_file(ProviderConfig("openai", "x")), f"Bearer {KEY}-OPENAI"),
        (
            by_file(ProviderConfig("openai", "x", base_url=Address("http://127.0.0.1:8/v1"))),
            f"Bearer {KEY}-OPENAI",
        ),
        (
            by_file(
                ProviderConfig("openai", "x", base_url=Address("https://lab.example/v1", is_callers=True))
            ),
            f"Bearer {KEY}-OPENAI",
        ),
        (
            by_file(
                ProviderConfig("openai", "x", base_url=Address("https://lab.example/v1")),
                Caller(KEYS, allow_hosts=frozenset({"lab.example"})),
            ),
            f"Bearer {KEY}-OPENAI",
        ),
        (
            by_file(
                ProviderConfig("openai", "x", Secret("theirs", "project"), Address("https://evil.example/v1"))
            ),
            "Bearer theirs",
        ),
        (
            by_file(
                ProviderConfig("openai", "x", base_url=Address("https://evil.example/v1")),
                Caller({"OPENAI_API_KEY": "theirs"}, frozenset({"OPENAI_API_KEY"})),
            ),
            "Bearer theirs",
        ),
        (by_file(CustomConfig(Address("https://api.openai.com/v1"), api_key=MINE)), f"Bearer {KEY}"),
        (
            by_file(CustomConfig(Address("https://evil.example/v1"), api_key=Secret("theirs"))),
            "Bearer theirs",
        ),
        (by_file(CustomConfig(Address("https://evil.example/v1"))), None),
        (
            read_name("https://evil.example/v1#m", caller=Caller(KEYS), is_callers=False),
            None,
        ),
    ],
)
def test_where_keys_may_go(model: ModelConfig, header: str | None) -> None:
    """The provider's host, this machine, hosts that the caller named or allowed; a project's key anywhere."""
    assert connect(model).reveal_headers().get("Authorization") == header


def test_custom_connections() -> None:
    """The URL is the endpoint itself, or a base URL when it ends in a version; headers are sent."""
    config = CustomConfig(
        Address("https://x.example/v1/"),
        "name",
        api_key=Secret("k" * 20),
        headers={"X-Tier": Secret("gold"), "X-Key": Secret("h" * 20)},
    )
    connection = connect(by_file(config, max_concurrent=3, requests_per_minute=60.0))
    assert connection.url == "https://x.example/v1/chat/completions"
    assert connection.reveal_headers() == {
        "Authorization": f"Bearer {'k' * 20}",
        "X-Tier": "gold",
        "X-Key": "h" * 20,
    }
    assert (connection.max_concurrent, connection.requests_per_minute) == (3, 60.0)
    for url in ("https://x.example/infer", "https://x.example/", "https://x.example/v1/chat/completions"):
        assert connect(by_file(CustomConfig(Address(url)))).url == url


def test_a_header_of_the_file_wins_over_the_key() -> None:
    """Where a file gives the header of the key itself, in any case, that one is sent."""
    config = CustomConfig(
        Address("https://x.example/v1"), api_key=Secret("k"), headers={"authorization": Secret("Basic z")}
    )
    assert connect(by_file(config)).reveal_headers() == {"authorization": "Basic z"}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("X Key", "v", "E108"),
        ("Host", "v", "E108"),
        ("Content-Length", "3", "E108"),
        ("X-Key", "a\r\nX-Evil: 1", "E117"),
        ("X-Key", "schlüssel-canary", "E117"),
    ],
)
def test_headers_that_cannot_be_sent(name: str, value: str, code: str) -> None:
    """A header has a proper name and a plain value; the value is not shown."""
    assert refuse(by_file(CustomConfig(Address("http://h/v1"), headers={name: Secret(value)}))).code == code


def test_an_empty_key_is_none() -> None:
    """`api_key: ""` sends no key."""
    assert connect(by_file(CustomConfig(Address("http://h/v1"), api_key=Secret("")))).reveal_headers() == {}


def test_azure_is_known_by_its_host() -> None:
    """A file that gives the URL of an Azure host has its key sent in `api-key`."""
    config = CustomConfig(
        Address("https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2"),
        api_key=Secret("k"),
    )
    assert connect(by_file(config)).reveal_headers() == {"api-key": "k"}


def test_models_without_an_endpoint() -> None:
    """A placeholder cannot be asked, and a snippet has nothing to connect to."""
    assert (
        refuse(ModelConfig("m", PlaceholderConfig())).message
        == "model `m` is a placeholder: it cannot be asked"
    )
    snippet = InferenceConfig(Snippet("infer", "def infer(messages): return 'A'"))
    assert refuse(ModelConfig("m", snippet)).code == "E301"


def is_refused(
    url: str, *, secret: Secret = MINE, is_callers: bool = False, caller: Caller | None = None
) -> bool:
    """Return whether a key may not go to a URL; the provider's own host is `api.openai.com`."""
    config = ProviderConfig("openai", "x", secret, Address(url, is_callers))
    try:
        connect(ModelConfig("m", config, caller=caller or Caller()))
    except SpecError as error:
        return error.code == "E117"
    return False


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "http://LOCALHOST/v1",
        "http://localhost./v1",
        "http://127.0.0.1:8000/v1",
        "http://127.9.9.9/v1",
        "http://[::1]:8000/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "https://127.0.0.1/v1",
    ],
)
def test_this_machine_may_have_any_key(url: str) -> None:
    """Loopback is always allowed."""
    assert is_loopback(url)
    assert not is_refused(url)


@pytest.mark.parametrize(
    "url",
    [
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
    ],
)
def test_a_host_of_the_projects_choice_may_not(url: str) -> None:
    """Any other host that a file names is refused, also the provider's own without TLS."""
    assert is_refused(url)


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "https://API.OPENAI.COM/v1", "https://api.openai.com:8443/v1"]
)
def test_the_providers_own_host_may(url: str) -> None:
    """The provider's key goes to the provider."""
    assert not is_refused(url)


def test_a_host_that_the_caller_named_may() -> None:
    """What the caller named on the command line or in the environment is the caller's choice."""
    assert not is_refused("https://evil.example/v1", is_callers=True)


@pytest.mark.parametrize("origin", ["written", "project"])
def test_the_projects_own_key_goes_where_the_project_says(origin: str) -> None:
    """A key that the project brings is the project's business."""
    secret = Secret("sk-theirs", "written" if origin == "written" else "project")
    assert not is_refused("https://evil.example/v1", secret=secret)


@pytest.mark.parametrize(
    ("allowed", "url", "refused"),
    [
        ("lab.example", "https://lab.example/v1", False),
        ("LAB.example.", "http://lab.example:8000/v1", False),
        ("lab.example:8000", "http://lab.example:8000/v1", False),
        ("lab.example:443", "https://lab.example/v1", False),
        ("lab.example:8000", "http://lab.example:9000/v1", True),
        ("https://lab.example/v1", "https://lab.example/v1", False),
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
    assert not is_refused("https://lab.example/v1", caller=Caller(environment))
    theirs = Caller(environment, project_names=frozenset(environment))
    assert is_refused("https://lab.example/v1", caller=theirs)


def test_the_refusal_says_what_to_do() -> None:
    """The message names the host and the key's name; the hint is the option that allows it."""
    config = ProviderConfig("openai", "x", base_url=Address("https://evil.example/v1"))
    error = refuse(by_file(config))
    named = "a file of the project names the host `evil.example` for your `OPENAI_API_KEY`"
    assert (error.code, error.message) == ("E117", f"model `m`: {named}")
    assert error.hint == "if that host may have it, run again with `--allow-host evil.example`"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://x.example/v1", "E108"),
        ("x.example/v1", "E108"),
        ("http://", "E108"),
        ("http:///v1", "E108"),
        ("http://x.example:99999/v1", "E108"),
        ("http://x.example:0/v1", "E108"),
        ("http://[::1/v1", "E108"),
        ("http://x.example/a b", "E108"),
        ("http://x.example\\y.example/", "E108"),
        ("http://x.example/\nX-Evil: 1", "E108"),
        ("", "E108"),
        ("https://user:hush@x.example/v1", "E117"),
        ("https://127.0.0.1@evil.example/v1", "E117"),
        ("https://x.example/v1?key=hush", "E117"),
        ("https://x.example/v1?api_key=hush", "E117"),
        ("https://x.example/v1?access_token=hush", "E117"),
        ("https://x.example/v1?X-Amz-Signature=hush", "E117"),
        ("https://x.example/v1?code=hush", "E117"),
        ("https://x.example/v1?temperature=0", "E108"),
    ],
)
def test_urls_that_cannot_be_asked(url: str, code: str) -> None:
    """A URL is whole, and holds no secret; what it holds is not shown."""
    with pytest.raises(SpecError) as caught:
        check_url(url, "m")
    assert caught.value.code == code
    assert "hush" not in str(caught.value)


def test_urls_that_can_be_asked() -> None:
    """Ports, paths and other parameters are fine."""
    for url in ("http://127.0.0.1:8000/v1", "https://x.example/a@b?api-version=2024-10-21", "http://[::1]"):
        assert check_url(url, "m") == url


def test_values_of_the_environment() -> None:
    """A blank value is not set; white space around a key is not part of it."""
    caller = Caller({"A": " hush \n", "B": " ", "C": "theirs"}, project_names=frozenset({"C"}))
    (mine, none, theirs) = (caller.find_key(name) for name in "ABC")
    assert none is None
    assert mine is not None
    assert (mine.reveal(), mine.origin) == ("hush", "caller")
    assert theirs is not None
    assert theirs.origin == "project"
    assert "hush" not in repr(caller)


def test_the_node_can_stand_for_a_host() -> None:
    """`{node_ip}` is the whole host, with a port or without one; the node's address is put in its place."""
    assert check_url("http://{node_ip}:8000/v1", "m") == "http://{node_ip}:8000/v1"
    assert (
        reach("http://{node_ip}:8000/v1#m").at_node("10.0.0.7").url
        == "http://10.0.0.7:8000/v1/chat/completions"
    )
    assert reach("https://{node_ip}/v1#m").at_node("fd00::7").url == "https://[fd00::7]/v1/chat/completions"
    assert "{node_ip}" in reach("http://127.0.0.1/{node_ip}#m").at_node("10.0.0.7").url


@pytest.mark.parametrize(
    "url",
    [
        "http://{node_ip}.evil.example/v1",
        "http://evil.{node_ip}/v1",
        "http://{node_ip}{node_ip}/v1",
        "http://{NODE_IP}:8000/v1",
        "http://{host}:8000/v1",
        "http://{/v1",
    ],
)
def test_no_name_can_be_built_around_the_node(url: str) -> None:
    """Nothing else in braces stands for a host, or for a part of one."""
    with pytest.raises(SpecError, match="is not the URL of an endpoint") as caught:
        check_url(url, "m")
    assert caught.value.code == "E108"


def test_a_file_that_names_the_node_gets_no_key_of_the_caller() -> None:
    """Until the caller allows it, or has named it."""
    url = "http://{node_ip}:8000/v1"
    assert is_refused(url)
    assert not is_refused(url, is_callers=True)
    assert not is_refused(url, caller=Caller(allow_hosts=frozenset({"{node_ip}"})))
    assert not is_refused(url, caller=Caller(allow_hosts=frozenset({"{node_ip}:8000"})))
    assert is_refused(url, caller=Caller(allow_hosts=frozenset({"{node_ip}:9000"})))


def test_what_is_given_is_what_is_set() -> None:
    """Parameters that are not set are left to the endpoint; zero and false are set."""
    generation = Generation(temperature=0, stop=("\n", "Q:"), logprobs=False)
    assert generation.given() == {"temperature": 0, "stop": ["\n", "Q:"], "logprobs": False}


def test_the_nearer_wins() -> None:
    """What a task specification sets wins over the model's own, parameter by parameter."""
    nearer, farther = Generation(temperature=0), Generation(temperature=1, max_tokens=5)
    assert nearer.over(farther) == Generation(temperature=0, max_tokens=5)


@pytest.mark.parametrize(
    ("generation", "wants"),
    [
        (Generation(), False),
        (Generation(logprobs=True), True),
        (Generation(top_logprobs=3), True),
        (Generation(top_logprobs=0), True),
        (Generation(logprobs=False, top_logprobs=3), False),
    ],
)
def test_top_logprobs_ask_for_logprobs(generation: Generation, wants: bool) -> None:  # noqa: FBT001  # a table
    """`top_logprobs` alone asks for log probabilities, unless `logprobs` is false."""
    assert generation.wants_logprobs is wants


def test_a_name_can_state_it() -> None:
    """Every parameter can be written behind `?`."""
    texts = {
        "temperature": "0.5",
        "top_p": "1",
        "max_tokens": "16",
        "seed": "-3",
        "stop": "\n",
        "logprobs": "true",
        "top_logprobs": "0",
    }
    assert reach(f"openai/x?{urlencode(texts)}").generation == Generation(
        0.5, 1, 16, -3, ("\n",), logprobs=True, top_logprobs=0
    )


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("temperature", "-1", "a number from 0 on"),
        ("temperature", "nan", "a number from 0 on"),
        ("top_p", "1.5", "a number from 0 to 1"),
        ("max_tokens", "0", "a whole number from 1 on"),
        ("seed", "x", "a whole number"),
        ("stop", "", "a text that is not empty"),
        ("logprobs", "yes", "`true` or `false`"),
        ("top_logprobs", "-1", "a whole number from 0 on"),
    ],
)
def test_what_a_name_states_is_checked(key: str, text: str, wanted: str) -> None:
    """A value out of range is an error that says what is expected."""
    name = f"openai/x?{key}={text}"
    error = refuse(name)
    assert (error.code, error.message) == ("E301", f"model `{name}`: `{key}` is {text!r}, not {wanted}")
