"""Each wheel, installed with its declared dependencies only, imports without side effects.

A wheel is unpacked into an empty folder, next to links to exactly the distributions that it needs, and
imported by an interpreter that sees that folder and the standard library only.

Measured with pydantic 2.14 on Python 3.11: defining a model loads socket, selectors, threading, urllib,
random, secrets, uuid, tempfile, shutil, pathlib and email on pydantic's own account; asyncio, logging and
the rest of NEVER it does not load. So the pure tiers may load nothing of NEVER, and of the others only
those that their dependencies load. The package `windlass_protocol` itself loads its types when asked, so
none.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import Parser
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TypedDict

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.files import ROOT, repository_files

PROBE = Path(__file__).with_name("import_probe.py")
PACKAGES = {
    "protocol": "windlass_protocol",
    "harness": "windlass_harness",
    "runtime": "windlass",
    "server": "windlass_server",
    "sidecar": "windlass_sidecar",
}
NEEDS = {
    "protocol": ["protocol"],
    "harness": ["protocol", "harness"],
    "runtime": ["protocol", "harness", "runtime"],
    "server": ["protocol", "harness", "runtime", "server"],
    "sidecar": ["protocol", "harness", "runtime", "sidecar"],
}
COMMANDS = {"sidecar"}
"""Those that bring a command."""
SUFFIXES = {".py", ".pyi", ".typed"}
COMMAND_TIMEOUT_S = 300
NEEDS_AN_EXTRA = {
    "windlass.client": ("feed", "link"),
    "windlass.evals": ("pytest",),
    "windlass.foreign": ("claude_agent_sdk", "langgraph", "openai_agents", "pydantic_ai"),
    "windlass.mcp": ("connection", "transports"),
    "windlass.postgres": (
        "copying",
        "link",
        "notifier",
        "permits",
        "reads",
        "schema",
        "store",
        "writer",
        "writes",
    ),
    "windlass": ("price_table",),
    "windlass.storage": ("sqlalchemy",),
    "windlass.telemetry": ("otlp",),
    "windlass.temporal": ("wakes",),
    "windlass.testing": ("pytest",),
    "windlass.toolbox": ("web_connect",),
}
"""Modules that are imported on demand only, because their dependencies are extras."""

NEVER = {
    "asyncio",
    "concurrent",
    "http",
    "httpx",
    "logging",
    "multiprocessing",
    "sqlite3",
    "ssl",
    "subprocess",
}
IMPURE = {
    *NEVER,
    *(
        "random",
        "secrets",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "tempfile",
        "threading",
        "urllib",
        "uuid",
    ),
}
DEPENDENCIES_ALONE = {
    "protocol": """
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, RootModel, TypeAdapter


class Kind(StrEnum):
    ONE = "one"


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    count: Annotated[int, Field(ge=0, alias="theCount")]
    kind: Kind
    mode: Literal["a"]
    data: dict[str, JsonValue]
    at: datetime | AwareDatetime | None = None


class Root(RootModel[Model | int]):
    pass


TypeAdapter(Model | Root)
""",
    "harness": "import tree_sitter\nimport tree_sitter_bash\n",
}


class Report(TypedDict):
    """The report of the probe."""

    acts: list[str]
    threads: int
    loggers: list[str]
    environment_changed: bool
    modules: list[str]
    visible: list[str]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A built wheel, installed alone with its dependencies into a folder."""

    folder: str
    names: tuple[str, ...]
    metadata: str
    site: Path

    @property
    def package(self) -> str:
        return PACKAGES[self.folder]

    @property
    def modules(self) -> list[str]:
        """Those that need no extra."""
        paths = (Path(name) for name in self.names if name.endswith(".py"))
        modules = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
        extra = {f"{package}.{name}" for package, names in NEEDS_AN_EXTRA.items() for name in names}
        return [module for module in modules if module not in extra]


def run(*command: str) -> str:
    """The output of the command; a failure shows all of it."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if result.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}", pytrace=False)
    return result.stdout


@cache
def probe(site: Path, *modules: str) -> Report:
    return json.loads(run(sys.executable, "-I", "-S", "-B", "-W", "error", str(PROBE), str(site), *modules))


def foreign_distributions(requirements: list[str]) -> Iterator[metadata.Distribution]:
    """The installed distributions that the requirements name, and their dependencies."""
    todo, seen = list(requirements), set[str]()
    while todo:
        requirement = Requirement(todo.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        name = canonicalize_name(requirement.name)
        if wanted and name not in seen and not name.startswith("windlass"):
            seen.add(name)
            distribution = metadata.distribution(requirement.name)
            assert requirement.specifier.contains(distribution.version), (
                f"{requirement}: found {distribution.version}"
            )
            todo += distribution.requires or []
            yield distribution


def link(distribution: metadata.Distribution, site: Path) -> None:
    for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        (site / name).symlink_to(Path(str(distribution.locate_file(name))))


def requirements_of(text: str) -> list[str]:
    return Parser().parsestr(text).get_all("Requires-Dist") or []


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    built: dict[str, Path] = {}
    texts: dict[str, str] = {}
    for folder in PACKAGES:
        out = tmp_path_factory.mktemp(folder)
        run(
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "-o",
            str(out),
            str(ROOT / "packages" / folder),
        )
        [built[folder]] = out.glob("*.whl")
        with zipfile.ZipFile(built[folder]) as archive:
            [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            texts[folder] = archive.read(name).decode()
    return {
        folder: _install_alone(folder, built, texts, tmp_path_factory.mktemp("site")) for folder in PACKAGES
    }


def _install_alone(folder: str, built: dict[str, Path], texts: dict[str, str], site: Path) -> Wheel:
    for needed in NEEDS[folder]:
        with zipfile.ZipFile(built[needed]) as archive:
            archive.extractall(site)
    requirements = [line for needed in NEEDS[folder] for line in requirements_of(texts[needed])]
    for distribution in foreign_distributions(requirements):
        link(distribution, site)
    with zipfile.ZipFile(built[folder]) as archive:
        return Wheel(folder, tuple(sorted(archive.namelist())), texts[folder], site)


def built_files(folder: str) -> set[str]:
    """Files that the build adds to a package: the inspector."""
    source = ROOT / "packages" / folder / "src"
    app = source / "windlass_server" / "inspector" / "dist"
    return {str(path.relative_to(source)) for path in app.rglob("*") if path.is_file()}


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_wheel_holds_its_sources_its_licence_and_nothing_else(
    wheels: dict[str, Wheel], folder: str
) -> None:
    wheel = wheels[folder]
    source = Path("packages", folder, "src")
    expected = {str(path.relative_to(source)) for path in repository_files() if path.is_relative_to(source)}
    expected |= built_files(folder)
    [info] = {name.partition("/")[0] for name in wheel.names if ".dist-info/" in name}
    expected |= {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    if folder in COMMANDS:
        expected.add(f"{info}/entry_points.txt")
    missing, stray = sorted(expected - {*wheel.names}), sorted({*wheel.names} - expected)
    assert not missing, f"missing in the wheel: {missing}; a licence comes from packages/{folder}/LICENSE"
    assert not stray, f"stray in the wheel: {stray}"


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_wheel_is_typed_and_has_no_tests_or_data_in_it(wheels: dict[str, Wheel], folder: str) -> None:
    wheel = wheels[folder]
    inside = [Path(name) for name in wheel.names if name.startswith(f"{wheel.package}/")]
    assert Path(wheel.package, "py.typed") in inside
    ours = [path for path in inside if str(path) not in built_files(folder)]
    stray = [str(path) for path in ours if path.suffix not in SUFFIXES or "test" in path.stem.split("_")]
    assert not stray, f"not a module of the package: {stray}"


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_wheel_needs_only_our_wheels_below_it(wheels: dict[str, Wheel], folder: str) -> None:
    needed = {Requirement(line).name for line in requirements_of(wheels[folder].metadata)}
    own = {name for name in needed if name.startswith("windlass")}
    assert own == {f"windlass-{below}" for below in NEEDS[folder][:-1]}


@pytest.mark.parametrize("folder", PACKAGES)
def test_every_module_of_a_wheel_imports_with_only_the_wheels_below_it(
    wheels: dict[str, Wheel], folder: str
) -> None:
    wheel = wheels[folder]
    report = probe(wheel.site, *wheel.modules)
    assert {*wheel.modules} <= {*report["modules"]}
    assert report["visible"] == [PACKAGES[needed] for needed in NEEDS[folder]]


@pytest.mark.promise("H1")
@pytest.mark.parametrize("folder", PACKAGES)
def test_importing_does_no_work(wheels: dict[str, Wheel], folder: str) -> None:
    wheel = wheels[folder]
    report = probe(wheel.site, *wheel.modules)
    assert report["acts"] == []
    assert report["threads"] == 0
    assert report["loggers"] == []
    assert not report["environment_changed"]


def impure(modules: Iterable[str], kinds: set[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] in kinds)


@pytest.mark.promise("H1")
@pytest.mark.parametrize("folder", DEPENDENCIES_ALONE)
def test_the_pure_tiers_load_no_impure_modules_beyond_those_of_their_dependencies(
    wheels: dict[str, Wheel], folder: str
) -> None:
    wheel = wheels[folder]
    (wheel.site / "dependencies_alone.py").write_text(DEPENDENCIES_ALONE[folder], encoding="utf-8")
    below = [module for needed in NEEDS[folder][:-1] for module in wheels[needed].modules]
    allowed = probe(wheel.site, "dependencies_alone", *below)["modules"]
    loaded = probe(wheel.site, *wheel.modules)["modules"]
    assert impure({*loaded} - {*allowed}, IMPURE) == []
    assert impure(loaded, NEVER) == []


@pytest.mark.promise("H1")
def test_importing_the_protocol_package_itself_loads_nothing_impure(wheels: dict[str, Wheel]) -> None:
    assert impure(probe(wheels["protocol"].site, "windlass_protocol")["modules"], IMPURE) == []


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("open('made', 'w').close()", "open for writing: made"),
        ("import os\nos.mkdir('made')", "os.mkdir"),
        ("import socket\nsocket.socket()", "socket.__new__"),
        ("import subprocess\nsubprocess.run(['true'])", "subprocess.Popen"),
    ],
)
def test_the_probe_reports_the_side_effects_of_an_import(tmp_path: Path, code: str, complaint: str) -> None:
    (tmp_path / "guilty.py").write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{code}\n", encoding="utf-8")
    assert complaint in "\n".join(probe(tmp_path, "guilty")["acts"])


def test_the_probe_sees_threads_loggers_and_changes_of_the_environment(tmp_path: Path) -> None:
    text = """
import logging, os, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
logging.getLogger("mine").addHandler(logging.NullHandler())
logging.basicConfig()
os.environ["A"] = "b"
"""
    (tmp_path / "guilty.py").write_text(text, encoding="utf-8")
    report = probe(tmp_path, "guilty")
    assert (report["threads"], report["loggers"], report["environment_changed"]) == (
        1,
        ["mine", "root"],
        True,
    )


def test_the_probe_fails_on_a_warning_and_on_a_missing_dependency(tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text(
        "import warnings\nwarnings.warn('old', DeprecationWarning)\n", encoding="utf-8"
    )
    (tmp_path / "lacks.py").write_text("import pydantic\n", encoding="utf-8")
    for module, complaint in (("warns", "DeprecationWarning: old"), ("lacks", "No module named 'pydantic'")):
        with pytest.raises(pytest.fail.Exception, match=complaint):
            probe(tmp_path, module)
