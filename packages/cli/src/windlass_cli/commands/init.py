"""`windlass init`: a project that runs, with its tests, settings, container and CI."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Final

import typer

import windlass
from windlass_cli.backend import command_of
from windlass_cli.output import CommandError
from windlass_cli.settings import FILE

_AGENT_FILE: Final = "agent.py"
_AGENT: Final = '''"""The agent of this project; try it: windlass run "what is the weather in Oslo?"."""

from typing import Annotated

from pydantic import Field

from windlass import Agent, ToolContext, tool

City = Annotated[str, Field(examples=["Oslo"])]


@tool(mode="read")
async def weather(city: City) -> str:
    """Return the weather in a city."""
    return f"Rain all day in {city}."


@tool(mode="external", effect="idempotent")
async def book(city: City, ctx: ToolContext) -> str:
    """Book a room in a city. A person approves each call; the key is the same in every attempt."""
    return f"booked in {city}, receipt {ctx.idempotency_key}"


# "demo/paced" answers by fixed rules, without an API key. Others: "openai/…", "anthropic/…", "ollama/…".
agent = Agent("helper", model="demo/paced", instructions="Be brief.", tools=[weather, book])
'''
_TESTS: Final = '''"""Tests of the agent: a scripted model plays the real one, and time is fake."""

from agent import agent

from windlass import AgentRuntime, Approval, RunResult
from windlass.testing import call, crash_everywhere, say
from windlass.testing.pytest import MakeModel, RunStory


def test_the_weather_needs_no_approval(windlass_runtime: RunStory, scripted_model: MakeModel) -> None:
    guide = agent.with_model(scripted_model(call("weather", {"city": "Oslo"}), say("Take a coat.")))

    async def story(runtime: AgentRuntime) -> RunResult:
        return await (await runtime.start_run(guide, "How is Oslo?")).wait()

    assert windlass_runtime(story, agents=[guide]).output == "Take a coat."


def test_a_booking_is_made_after_a_person_approves(
    windlass_runtime: RunStory, scripted_model: MakeModel
) -> None:
    model = scripted_model(call("book", {"city": "Oslo"}), say("Booked."))
    guide = agent.with_model(model)

    async def story(runtime: AgentRuntime) -> RunResult:
        handle = await runtime.start_run(guide, "Book Oslo.")
        async for request in handle.requests():
            assert isinstance(request, Approval)
            assert request.arguments == {"city": "Oslo"}
            await request.approve(by="ann")
        return await handle.wait()

    assert windlass_runtime(story, agents=[guide]).output == "Booked."
    assert "booked in Oslo" in model.requests[-1].messages[-1].content


def test_a_run_ends_the_same_wherever_its_process_dies(scripted_model: MakeModel) -> None:
    guide = agent.with_model(scripted_model(call("book", {"city": "Oslo"}), say("Booked.")))
    for crash in crash_everywhere(guide, "Book Oslo.", answer="approve"):
        assert crash.result.output == "Booked.", crash.point
'''
_CONFTEST: Final = '''"""The fixtures windlass_runtime, scripted_model and fake_clock."""

pytest_plugins = ["windlass.testing.pytest"]
'''
_PYTEST: Final = """[pytest]
testpaths = tests
pythonpath = .
"""
_TOML: Final = """# Every setting, its value and its source: windlass config
agents = "agent.py:agent"
data = "windlass-data"

[approvals]
# responders = ["ann", "bob"]   # who may answer requests; anyone when left out
# four_eyes = true              # users may not approve calls of runs that they started
expires_s = 86400

[server]
port = 8700
# keys = "keys.json"            # windlass keys add ann ann --role approver
"""
_IGNORED: Final = """windlass-data/
keys.json
__pycache__/
.pytest_cache/
.venv/
.env
"""
_NOT_COPIED: Final = """windlass-data
keys.json
.git
.venv
.env
__pycache__
"""
_WHEELS: Final = ("protocol", "harness", "runtime", "server", "sidecar", "cli")
_REQUIREMENTS: Final = """# Windlass is not on PyPI yet: its wheels have to be in wheels/.
{wheels}
pytest>=8
"""
_WHEELS_README: Final = """# wheels

Copy the wheels of Windlass here: `make wheels` of a checkout writes them to `dist/`.
`requirements.txt` names them, and the Dockerfile copies this folder.
"""
_DOCKERFILE: Final = """# Copy the wheels of Windlass to wheels/, build the image, make a key, start it:
#   docker build -t {name} .
#   docker run --rm -v {name}-data:/data {name} windlass keys add ann ann --role approver
#   docker run -p 8700:8700 -v {name}-data:/data {name}
# An exact version; `FROM python@sha256:…` is one that cannot be moved.
FROM python:3.13.12-slim-trixie
WORKDIR /app
COPY requirements.txt ./
COPY wheels wheels
RUN pip install --no-cache-dir -r requirements.txt && useradd --create-home app && install -d -o app /data
COPY . .
USER app
VOLUME /data
ENV WINDLASS_DATA=/data WINDLASS_SERVER_HOST=0.0.0.0 WINDLASS_SERVER_KEYS=/data/keys.json
EXPOSE 8700
CMD ["windlass", "serve"]
"""
_CI: Final = """name: test
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      # The wheels of Windlass have to be in wheels/: commit them, or fetch them here.
      - run: pip install -r requirements.txt
      - run: pytest
      - run: windlass doctor --load
"""
_README: Final = """# {name}

An agent on Windlass: it looks up the weather by itself, and asks a person before it books a room.

    windlass run "what is the weather in Oslo?"   # one run in the terminal
    windlass dev                                  # the server and its web app; restarts when a file changes
    pytest                                        # the tests: no key, no network
    windlass doctor --load                        # checks the installation, the agent and the stores

| file | contents |
|---|---|
| `agent.py` | the agent and its tools; write `model="openai/…"` and set OPENAI_API_KEY for a real model |
| `tests/` | tests with a scripted model, fake time and crashes |
| `windlass.toml` | settings; `windlass config` shows all of them |
| `wheels/` | copy the wheels of Windlass there; `requirements.txt` and the `Dockerfile` need them |
| `Dockerfile` | the server as an image |
| `.github/workflows/test.yml` | the tests on every push |

## Deploy

The image needs the wheels of Windlass in `wheels/`, and a key, because it listens on all addresses.
The role approver lets ann approve bookings:

    docker build -t {name} .
    docker run --rm -v {name}-data:/data {name} windlass keys add ann ann --role approver
    docker run -p 8700:8700 -v {name}-data:/data {name}
"""


def files_of(name: str) -> dict[str, str]:
    """Return the files of a new project, by their paths in its folder."""
    wheels = "\n".join(f"wheels/windlass_{part}-{windlass.__version__}-py3-none-any.whl" for part in _WHEELS)
    return {
        _AGENT_FILE: _AGENT,
        FILE: _TOML,
        "tests/test_agent.py": _TESTS,
        "conftest.py": _CONFTEST,
        "pytest.ini": _PYTEST,
        "requirements.txt": _REQUIREMENTS.format(wheels=wheels),
        "wheels/README.md": _WHEELS_README,
        "Dockerfile": _DOCKERFILE.format(name=name),
        ".dockerignore": _NOT_COPIED,
        ".github/workflows/test.yml": _CI,
        ".gitignore": _IGNORED,
        "README.md": _README.format(name=name),
    }


def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder; it is created if it does not exist.")] = Path(),
) -> None:
    """Create a project that runs: an agent with tests, settings, a Dockerfile and a CI file.

    Existing files are not changed. With an existing agent.py or windlass.toml, no file is written.

    Example: windlass init shop
    """
    terminal = command_of(context).terminal
    _check_empty(folder)
    name = _image_name(folder.absolute().name)
    try:
        for path, text in files_of(name).items():
            is_new = _write(folder / path, text)
            terminal.say(f"  {folder / path}{'' if is_new else ' was there, and is kept'}")
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror}") from None
    terminal.say(f'Run it: {_enter(folder)}windlass run "what is the weather in Oslo?"')
    terminal.say(f"Test it: {_enter(folder)}pytest")


def _write(path: Path, text: str) -> bool:
    """Write a new file; return False if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.exists() or path.is_symlink():
            return False
        raise
    return True


def _image_name(folder: str) -> str:
    """Return the name of a folder as that of a container image."""
    name = "".join(char if char.isascii() and char.isalnum() else "-" for char in folder.lower())
    return name.strip("-") or "agent"


def _check_empty(folder: Path) -> None:
    enter = _enter(folder)
    if (folder / FILE).exists():
        raise CommandError(
            f"{folder.absolute()} is a project already: it contains {FILE}",
            f'Run it: {enter}windlass run "…", or create another project: windlass init NAME',
        )
    if (folder / _AGENT_FILE).exists():
        raise CommandError(
            f"{folder / _AGENT_FILE} exists already",
            f'Run its agent: {enter}windlass --agents {_AGENT_FILE} run "…", '
            "or create a project in another folder: windlass init NAME",
        )


def _enter(folder: Path) -> str:
    return "" if folder.absolute() == Path.cwd() else f"cd {quote(str(folder))} && "
