"""Model routes: providers by name, and missing configuration."""

import ssl
import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from threading import get_ident
from unittest.mock import patch

import httpcore2
import pytest
from tests.models.wire import ANTHROPIC, GOOGLE, KEY, OPENAI, Reply, Wire, collect, play, serving

from windlass import Agent, AgentRuntime, LLMMessage, Rejected, Unavailable
from windlass.models import (
    AnthropicProvider,
    AzureOpenAIProvider,
    BedrockProvider,
    DemoModel,
    GoogleProvider,
    ModelSettings,
    OpenAICompatProvider,
    OpenAIResponsesProvider,
    provider_for,
    providers_from_environment,
)
from windlass.models.routes import PACE_S
from windlass.testing import ScriptedModel, say
from windlass_protocol import RetryClass

KEYS = {
    "OPENAI_API_KEY": KEY,
    "ANTHROPIC_API_KEY": KEY,
    "OPENAI_COMPAT_BASE_URL": "http://localhost:1/v1",
    "AZURE_OPENAI_API_KEY": KEY,
    "AZURE_OPENAI_ENDPOINT": "http://localhost:1",
    "GEMINI_API_KEY": KEY,
    "AWS_REGION": "eu-west-1",
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openai/gpt-5", OpenAICompatProvider),
        ("anthropic/claude", AnthropicProvider),
        ("ollama/llama3:8b", OpenAICompatProvider),
        ("openai-compat/org/model", OpenAICompatProvider),
        ("openai-responses/gpt-5", OpenAIResponsesProvider),
        ("azure/my-deployment", AzureOpenAIProvider),
        ("google/gemini-3-pro", GoogleProvider),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", BedrockProvider),
        ("demo/tour", DemoModel),
    ],
)
def test_a_name_finds_its_provider(name: str, kind: type) -> None:
    found = provider_for(name, KEYS)
    assert isinstance(found, kind)
    route_id, _, model_id = name.partition("/")
    assert (getattr(found, "route_id"), getattr(found, "model_id")) == (route_id, model_id)  # noqa: B009 - not of the port


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC, GOOGLE], ids=lambda wire: wire.name)
def test_a_first_call_loads_certificates_outside_of_the_event_loop(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, threads = httpcore2.default_ssl_context, list[int]()

    def default_ssl_context(**options: bool) -> ssl.SSLContext:
        threads.append(get_ident())
        return load(**options)

    async def story() -> None:
        monkeypatch.setattr(httpcore2, "default_ssl_context", default_ssl_context)
        async with serving(Reply(wire.text(["a"]))) as server:
            provider = wire.make(server.url, ModelSettings())
            assert (await collect(provider.stream([LLMMessage("user", "Hi")]))).text == "a"
            await provider.aclose()

    play(story)
    assert threads
    assert get_ident() not in threads, "the thread of the event loop loaded them"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("anthropic/claude", "ANTHROPIC_API_KEY"),
        ("openai-compat/x", "OPENAI_COMPAT_BASE_URL"),
        ("openai-responses/x", "OPENAI_API_KEY"),
        ("azure/x", "AZURE_OPENAI_API_KEY"),
        ("google/x", "GEMINI_API_KEY"),
        ("bedrock/x", "AWS_REGION"),
    ],
)
def test_missing_configuration_is_named(name: str, remedy: str) -> None:
    azure = {"AZURE_OPENAI_ENDPOINT": "http://localhost:1"}
    for given in ({}, {remedy: ""}, {remedy: " "} if "KEY" in remedy else {}):
        environment = {**azure, **given}
        with pytest.raises(Unavailable, match=remedy) as caught:
            provider_for(name, environment)
        assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED


def test_an_azure_resource_without_an_address_is_named() -> None:
    with pytest.raises(Unavailable, match="AZURE_OPENAI_ENDPOINT to the resource"):
        provider_for("azure/x", {"AZURE_OPENAI_API_KEY": KEY})


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("openai", "openai"),
        ("anthropic", "anthropic"),
        ("openai-responses", "openai"),
        ("azure", "openai"),
        ("google", "google"),
        ("bedrock", "bedrock"),
    ],
)
def test_the_error_for_a_missing_extra_names_the_package_to_install(name: str, extra: str) -> None:
    with (
        patch("windlass.models.transport.find_spec", return_value=None),
        pytest.raises(Unavailable, match=rf"pip install 'windlass-runtime\[{extra}\]'"),
    ):
        provider_for(f"{name}/x", KEYS)


@pytest.mark.parametrize("name", ["nobody/x", "openai", "openai/", "", "/x"])
def test_an_unknown_provider_name_is_refused(name: str) -> None:
    with pytest.raises(Rejected, match="provider/model"):
        provider_for(name, KEYS)


def test_the_same_name_is_the_same_provider() -> None:
    known = providers_from_environment(KEYS)
    assert known.provider("openai", "a") is known.provider("openai", "a")
    assert known.provider("openai", "a") is not known.provider("openai", "b")
    assert known.provider("nobody", "a") is None


def test_an_address_in_the_environment_counts_and_ollama_never_sees_the_key_of_another() -> None:
    async def work() -> tuple[list[str], list[str]]:
        async with (
            serving(Reply(OPENAI.text(["a"]))) as server,
            serving(Reply(ANTHROPIC.text(["a"]))) as other,
        ):
            environment = {
                **KEYS,
                "OPENAI_BASE_URL": f"{server.url}/v1",
                "OPENAI_COMPAT_BASE_URL": f"{server.url}/v1",
                "OLLAMA_HOST": server.url.removeprefix("http://"),
                "ANTHROPIC_BASE_URL": other.url,
            }
            known = providers_from_environment(environment)
            for route_id in ("openai", "ollama", "openai-compat", "anthropic"):
                provider = known.provider(route_id, "m")
                assert provider is not None
                assert (await collect(provider.stream([LLMMessage("user", "Hi")]))).text == "a"
            assert known.provider("demo", "m") is not None
            await known.aclose()
            sent = [asked.headers["authorization"] for asked in server.asked]
            return sent, [asked.headers["authorization"] for asked in other.asked]

    assert play(work) == ([f"Bearer {KEY}", "Bearer none", "Bearer none"], [f"Bearer {KEY}"])


def test_an_agent_with_a_model_name_is_configured_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> str | None:
        async with serving(Reply(OPENAI.text(["Hello"]))) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            return (await Agent("a", model="openai/m").run("Hi")).output

    assert play(work) == "Hello"


def test_a_provider_that_was_given_comes_before_the_environment() -> None:
    model = ScriptedModel([say("mine")])
    result = Agent("a", model="demo/x").run_sync("Hi", providers={"demo": model})
    assert result.output == "mine"


def test_a_host_can_replace_the_provider_source() -> None:
    async def work() -> None:
        agent = Agent("a", model="openai/gpt-5")
        source = providers_from_environment({})
        async with AgentRuntime.in_memory([agent], provider_source=source) as runtime:
            await runtime.start_run(agent, "Hi", run_id="r1")

    with pytest.raises(Unavailable, match="route openai: set the variable OPENAI_API_KEY") as caught:
        play(work)
    assert caught.value.causal_ids.run_id == "r1"


def test_nothing_loads_an_sdk_before_a_request() -> None:
    program = (
        "import sys, windlass.runtime.compose; from windlass.models import provider_for\n"
        f"keys = {KEYS!r}\n"
        "for name in ('openai', 'openai-responses', 'azure', 'anthropic', 'google', 'bedrock'):\n"
        "    provider_for(name + '/x', keys)\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'botocore') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("given", "pace_s"), [(None, PACE_S), ("", PACE_S), ("0", 0.0), ("1.5", 1.5), ("10", 10.0)]
)
def test_the_pace_of_the_paced_demo_comes_from_the_environment(given: str | None, pace_s: float) -> None:
    environment = {} if given is None else {"WINDLASS_DEMO_PACE": given}
    paced, quick = provider_for("demo/paced", environment), provider_for("demo/guide", environment)
    assert isinstance(paced, DemoModel)
    assert isinstance(quick, DemoModel)
    assert (paced.pace_s, quick.pace_s) == (pace_s, 0.0)


@pytest.mark.parametrize("given", ["-1", "10.1", "fast", "nan", "inf"])
def test_an_invalid_demo_pace_is_refused(given: str) -> None:
    with pytest.raises(Unavailable, match=r"WINDLASS_DEMO_PACE must be a number of seconds from 0 to 10"):
        provider_for("demo/paced", {"WINDLASS_DEMO_PACE": given})


@pytest.mark.parametrize(
    "made",
    [
        AnthropicProvider,
        AzureOpenAIProvider,
        BedrockProvider,
        GoogleProvider,
        OpenAICompatProvider,
        OpenAIResponsesProvider,
        provider_for,
        providers_from_environment,
    ],
)
def test_the_signature_of_a_provider_shows_no_environment_variable(made: Callable[..., object]) -> None:
    assert str(signature(made).parameters["environment"].default) == "os.environ"
