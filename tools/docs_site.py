"""The documentation site (`make docs`): the README, the pages of docs/ and an API reference, as static files.

The order of the pages is that of docs/README.md: a heading is a section, a row of its table is a page. Links
to files that are no page of the site become plain text. The site asks no other host for anything.
"""

import importlib
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Final

from tools.files import ROOT
from windlass_protocol.generated import MODULE_OF

HOME: Final = "README.md"
INDEX: Final = "docs/README.md"
PROJECT: Final = (
    "ARCHITECTURE.md",
    "PROMISES.md",
    "SECURITY.md",
    "VERSIONING.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
"""Pages about the project, the last section of the site."""
PACKAGES: Final = {
    "windlass": "Agents, tools and the runtime",
    "windlass.runtime.generated.builder": "Builder of runtimes",
    "windlass.runtime.options": "Options of runtimes and runs",
    "windlass.parts": "Parts of a runtime",
    "windlass.workflow": "Workflows in Python",
    "windlass.workflow.testing": "Tests of workflows",
    "windlass.tools": "Tools: options, undo, questions",
    "windlass.agent": "Subagents in the background",
    "windlass.agent.hooks": "Hooks",
    "windlass.agent.dynamic": "Dynamic parts",
    "windlass.agent.output": "Output validators",
    "windlass.agent.skills": "Skills",
    "windlass.agent.sandbox": "Sandboxes",
    "windlass.feed": "Feeds and cursors",
    "windlass.catalog": "Sessions and runs",
    "windlass.models": "Model providers",
    "windlass.code_mode": "Interpreter of programs",
    "windlass.sandboxes": "Adapters of sandboxes",
    "windlass.postgres": "Stores in PostgreSQL",
    "windlass.temporal": "Wakes by Temporal",
    "windlass.playground": "Playground",
    "windlass.mcp": "MCP servers",
    "windlass.openapi": "Tools of HTTP APIs",
    "windlass.webhooks": "Webhooks, channels and notifications",
    "windlass.telemetry": "Telemetry",
    "windlass.testing": "Test kit",
    "windlass.ledger": "Recorder and Builder",
    "windlass.evals": "Evaluations",
    "windlass.toolbox": "Files, search, shell and web tools",
    "windlass.client": "Client of servers",
    "windlass.steps": "The loop as a function",
    "windlass.storage": "Documents from elsewhere",
    "windlass.foreign": "Other frameworks",
    "windlass.ports": "Ports: contracts of adapters",
    "windlass_server": "Server",
    "windlass_sidecar": "Sidecar",
    "windlass_cli": "Command",
    "windlass_harness": "Pure rules",
    "windlass_harness.views": "Views of the journal",
    "windlass_protocol": "Types of the wire",
}
"""The packages of the API reference; each offers names in `__all__`, lazily in `dir()`, or in `OFFERED`."""
OFFERED: Final = {
    "windlass.runtime.generated.builder": ("AgentRuntimeBuilder",),
    "windlass.runtime.options": ("PartOptions", "RunOptions", "RuntimeOptions"),
    "windlass.agent": ("Background",),
    "windlass.agent.hooks": ("EventHook", "Hook", "HookOptions", "HookPoint", "hook", "on_event"),
    "windlass.agent.dynamic": ("Dynamic", "DynamicContext", "Resolver", "dynamic"),
    "windlass.agent.output": ("OutputContext", "OutputValidator"),
    "windlass.agent.skills": ("Skill", "Skills", "load_skills"),
    "windlass.agent.sandbox": ("Bubblewrap", "NoSandbox"),
    "windlass.openapi": ("ApiOptions", "OpenApi"),
    "windlass.playground": ("Playground", "PlaygroundDraft", "StepAnswer", "UnknownStep"),
    "windlass.temporal": ("wakes_at",),
    "windlass.workflow.testing": ("check_workflow",),
    "windlass_cli": ("main",),
    "windlass_sidecar": ("main",),
}
"""The names of modules without `__all__`."""
REACHED: Final = {
    "windlass": (
        "windlass.catalog.agent_sessions.AgentSessions",
        "windlass.catalog.runtime_sessions.RuntimeSessions",
        "windlass.engine.spending.spend_limits.LimitUse",
        "windlass.engine.spending.spend_limits.SpendLimits",
        "windlass.runtime.starts.packages.EffectivePackage",
        "windlass.schedules.Schedules",
    ),
    "windlass.tools": (
        "windlass.tools.context.CompactionContext",
        "windlass.tools.context.SessionValues",
        "windlass.tools.context.ToolState",
        "windlass.tools.question.ask_question",
    ),
    "windlass.agent.hooks": ("windlass_harness.loop.rules.RequestedCall",),
    "windlass.catalog": (
        "windlass.catalog.stats.RunGroup",
        "windlass_harness.record.Record",
        "windlass_harness.views.family.ChildSession",
    ),
    "windlass.sandboxes": (
        "windlass.sandboxes.bubblewrap.BubblewrapSandbox",
        "windlass.sandboxes.none.HostSandbox",
    ),
    "windlass.temporal": ("windlass.temporal.wakes.TemporalWakes",),
    "windlass.webhooks": (
        "windlass.webhooks.outbound.ChannelMessages",
        "windlass.webhooks.outbound.Notifications",
    ),
    "windlass.testing": (
        "windlass.testing.models.ScriptedCall",
        "windlass.testing.pytest.MakeModel",
        "windlass.testing.pytest.RunStory",
    ),
    "windlass.ledger": ("windlass_harness.ledger.goals.RunFacts", "windlass_harness.ledger.tapes.Tape"),
    "windlass.client": ("windlass.client.feed.EventFeed",),
    "windlass.foreign": (
        "windlass.foreign.claude_agent_sdk.WindlassSessionStore",
        "windlass.foreign.langgraph.WindlassSaver",
        "windlass.foreign.langgraph.run_graph",
        "windlass.foreign.openai_agents.WindlassSession",
        "windlass.foreign.openai_agents.durable",
        "windlass.foreign.pydantic_ai.WindlassDurability",
        "windlass.foreign.pydantic_ai.tools_of",
    ),
    "windlass.storage": (
        "windlass.storage.adapter.DocumentPage",
        "windlass.storage.adapter.StorageAdapter",
        "windlass.storage.memory.InMemoryStorage",
        "windlass.storage.sqlalchemy.SqlAlchemyStorage",
    ),
    "windlass_harness.views": (
        "windlass_harness.tracing.fold_trace",
        "windlass_harness.views.events.to_sse",
        "windlass_harness.views.runs.DeliveryState",
        "windlass_harness.views.stream.ChatFold",
    ),
}
"""What the names of a page lead to: classes that their members return, and names that guides import."""
_PORTS: Final = "windlass.ports"
_ENTRIES: Final = {"windlass_cli": "windlass_cli.main", "windlass_sidecar": "windlass_sidecar.main"}
"""Modules with the entry points of commands."""
_FENCE: Final = re.compile(r"^(```|~~~)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_ROW: Final = re.compile(r"^\| \[[^\]]+\]\(([^)]+\.md)\) \|")
CONFIG: Final = """[project]
site_name = "Windlass"
site_description = "A durable runtime for AI agents, in Python"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = [
{nav}]

[project.theme]
font = false
features = ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"]

[[project.theme.palette]]
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark mode"

[[project.theme.palette]]
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light mode"

[project.plugins.mkdocstrings.handlers.python]
paths = [{paths}]

[project.plugins.mkdocstrings.handlers.python.options]
docstring_style = "google"
show_root_heading = true
show_root_full_path = false
show_source = false
show_if_no_docstring = true
inherited_members = true
separate_signature = true
show_signature_annotations = true
"""


def sections() -> dict[str, list[str]]:
    """Return the pages of docs/README.md by their section."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in (ROOT / INDEX).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif row := _ROW.match(line):
            found.setdefault(title, []).append(f"docs/{row[1]}")
    return found


def places() -> dict[str, str]:
    """Return the pages of the site: the file of the repository, and its place on the site."""
    found = {HOME: "index.md"}
    for names in sections().values():
        found |= {name: name.removeprefix("docs/") for name in names}
    found |= {name: f"project/{name.lower()}" for name in PROJECT}
    return found | {
        f"examples/{path.name}": f"examples/{path.stem}.md"
        for path in sorted((ROOT / "examples").glob("*.py"))
    }


def moved(text: str, page: str, pages: Mapping[str, str]) -> str:
    """Return a page of the repository with its links as they are on the site."""
    here = PurePosixPath(pages[page]).parent

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = _joined(PurePosixPath(page).parent, target)
        path = HOME if path in (INDEX, "docs") else path
        if path.startswith("docs/images/"):
            return f"[{words}]({_relative(here, path.removeprefix('docs/'))})"
        if path not in pages:
            return words
        return f"[{words}]({_relative(here, pages[path])}{anchor})"

    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= bool(_FENCE.match(line))
        lines.append(line if is_code else _LINK.sub(link, line))
    return "\n".join(lines) + "\n"


def _joined(folder: PurePosixPath, target: str) -> str:
    parts: list[str] = []
    for part in (folder / target).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _relative(folder: PurePosixPath, target: str) -> str:
    return "/".join([*(".." for _ in folder.parts), target])


def api_page(package: str, title: str) -> str:
    """Return the reference of a package: an entry for each of its names, by the module that defines it."""
    entries = "\n".join(f"::: {path}\n" for _, path in sorted(offered(package).items()))
    return f"# {title} (`{package}`)\n\n{entries}"


def offered(package: str) -> dict[str, str]:
    """Return the names that a package offers, each with the place in which the reference finds it.

    Types of pydantic, such as `JsonValue`, are left out.
    """
    if package == _PORTS:
        return _port_classes()
    module = importlib.import_module(_ENTRIES.get(package, package))
    paths = {path.rpartition(".")[2]: path for path in REACHED.get(package, ())}
    for name in OFFERED.get(package) or getattr(module, "__all__", None) or _public(package):
        value = getattr(module, name)
        home: str = getattr(value, "__module__", None) or package
        if package == "windlass_protocol" and name in MODULE_OF:
            paths[name] = f"windlass_protocol.generated.{MODULE_OF[name]}.{name}"
        elif isinstance(value, ModuleType):
            paths[name] = value.__name__
        elif home.startswith("windlass"):
            paths[name] = f"{home}.{value.__name__ if isinstance(value, type) else name}"
        elif not home.startswith("pydantic"):
            paths[name] = f"{package}.{name}"
    return paths


def _port_classes() -> dict[str, str]:
    """Return the classes of the ports that no other page has."""
    elsewhere = {path for package in PACKAGES if package != _PORTS for path in offered(package).values()}
    ports = importlib.import_module(_PORTS)
    modules = [
        importlib.import_module(f"{_PORTS}.{port.name}") for port in pkgutil.iter_modules(ports.__path__)
    ]
    classes = [
        (name, f"{module.__name__}.{name}")
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return {name: path for name, path in classes if path not in elsewhere}


def _public(package: str) -> list[str]:
    names = dir(importlib.import_module(package))
    own = f"{package}."
    submodules = {name.removeprefix(own).partition(".")[0] for name in sys.modules if name.startswith(own)}
    return [name for name in names if not name.startswith("_") and name not in submodules]


def source_paths(folder: Path) -> list[Path]:
    """Return the folders with the sources that the reference is made of; `folder` is made for the wire types.

    Their modules make types on first use and declare them in stubs, so the stubs stand for the modules.
    """
    protocol = ROOT / "packages" / "protocol" / "src"
    shutil.copytree(protocol, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for stub in folder.rglob("*.pyi"):
        stub.replace(stub.with_suffix(".py"))
    return [folder, *(path for path in sorted(ROOT.glob("packages/*/src")) if path != protocol)]


def write_pages(folder: Path) -> None:
    """Write the sources of the site into an empty folder."""
    pages = places()
    for page, place in pages.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        if page.startswith("examples/"):
            text = f"# examples/{PurePosixPath(page).name}\n\n```python\n{text}```\n"
        else:
            text = moved(text, page, pages)
        target = folder / "pages" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", folder / "pages" / "images")
    (folder / "pages" / "api").mkdir()
    for package, title in PACKAGES.items():
        (folder / "pages" / "api" / f"{package}.md").write_text(api_page(package, title), encoding="utf-8")
    paths = ", ".join(f'"{path}"' for path in source_paths(folder / "sources"))
    config = CONFIG.format(nav="".join(_nav(pages)), paths=paths)
    (folder / "zensical.toml").write_text(config, encoding="utf-8")


def _nav(pages: Mapping[str, str]) -> Iterator[str]:
    yield '  { "Windlass" = "index.md" },\n'
    for title, names in sections().items():
        yield _section(title, [pages[name] for name in names])
    yield _section("Examples", [place for place in pages.values() if place.startswith("examples/")])
    yield _section("API reference", [f"api/{package}.md" for package in PACKAGES])
    yield _section("The project", [pages[name] for name in PROJECT])


def _section(title: str, names: list[str]) -> str:
    listed = ", ".join(f'"{place}"' for place in names)
    return f'  {{ "{title}" = [{listed}] }},\n'


def build(folder: Path) -> int:
    """Build the site from an empty folder into `folder / "site"`; return the exit code."""
    write_pages(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", str(folder / "zensical.toml")]
    code = subprocess.run(command, cwd=folder, check=False).returncode
    if code == 0:
        rank_guides_first(folder / "site" / "search.json")
    return code


def rank_guides_first(index: Path) -> None:
    """Change the titles of the API reference in the search index, so that guides are found before them.

    The search has no weights of pages. It ranks a title higher the earlier a word stands in it.
    """
    found = json.loads(index.read_text(encoding="utf-8"))
    for item in found["items"]:
        if item["location"].startswith("api/"):
            item["title"] = f"API reference of {item['title']}"
    index.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


def main() -> int:
    """Build the site into .site/site; return the exit code."""
    folder = ROOT / ".site"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    code = build(folder)
    if code == 0:
        print(f"The documentation is in {folder / 'site' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
