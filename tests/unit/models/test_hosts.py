from __future__ import annotations

from contextlib import suppress

import pytest

from answerkey.errors import SpecError
from answerkey.models.settings import (
    Address,
    Caller,
    Secret,
    check_url,
    guard_secret,
    is_loopback,
    put_address,
)

MINE = Secret("sk-canary-0123456789", "caller")


def is_refused(
    url: str, *, secret: Secret = MINE, is_callers: bool = False, caller: Caller | None = None
) -> bool:
    """Return whether a key may not go to a URL; the provider's own host is `api.own.example`."""
    with suppress(SpecError):
        guard_secret(
            secret,
            Address(url, is_callers),
            model="m",
            what="`OWN_API_KEY`",
            own_host="api.own.example",
            caller=caller or Caller(),
        )
        return False
    return True


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
        "https://api.own.example.evil.example/v1",
        "https://evil.example/api.own.example",
        "https://xapi.own.example/v1",
        "http://api.own.example/v1",
    ],
)
def test_a_host_of_the_projects_choice_may_not(url: str) -> None:
    """Any other host that a file names is refused, also the provider's own without TLS."""
    assert is_refused(url)


@pytest.mark.parametrize(
    "url", ["https://api.own.example/v1", "https://API.OWN.EXAMPLE/v1", "https://api.own.example:8443/v1"]
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
    with pytest.raises(SpecError) as caught:
        guard_secret(
            MINE, Address("https://evil.example/v1"), model="m", what="`K`", own_host=None, caller=Caller()
        )
    assert (
        caught.value.message == "model `m`: a file of the project names the host `evil.example` for your `K`"
    )
    assert (caught.value.code, "canary" in str(caught.value)) == ("E117", False)
    assert caught.value.hint == "if that host may have it, run again with `--allow-host evil.example`"


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
    assert put_address("http://{node_ip}:8000/v1", "10.0.0.7") == "http://10.0.0.7:8000/v1"
    assert put_address("https://{node_ip}/v1", "fd00::7") == "https://[fd00::7]/v1"
    assert put_address("http://127.0.0.1/{node_ip}", "10.0.0.7") == "http://127.0.0.1/{node_ip}"


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
