"""The files that a forge reads: they parse, and call targets of the Makefile that exist."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tools.doc_blocks import make_targets
from tools.files import ROOT, make_rules

FORGE: Final = sorted((ROOT / ".github").rglob("*.yml"))
WORKFLOWS: Final = {path.stem: path for path in FORGE if path.parent.name == "workflows"}
MAKEFILE: Final = (ROOT / "Makefile").read_text("utf-8")


def jobs_of(name: str) -> dict[str, Any]:
    return yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))["jobs"]


def steps_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    return job.get("steps", [])


@pytest.mark.parametrize("path", [*FORGE, ROOT / ".pre-commit-config.yaml"], ids=lambda path: path.name)
def test_a_file_of_the_forge_can_be_read(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_calls_targets_that_exist_and_has_few_rights(name: str) -> None:
    workflow = yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        code = "\n".join(step.get("run", "") for step in steps_of(job))
        for target in job.get("strategy", {}).get("matrix", {}).get("target", ["help"]):
            named = make_targets(code.replace("${{ matrix.target }}", target))
            assert named <= make_rules(MAKEFILE).keys()


def test_the_checks_run_what_lands_and_every_interpreter_to_try() -> None:
    jobs = jobs_of("checks")
    assert {"run": "make test"} in steps_of(jobs["test"])
    for job, variable in (("python", "PYTHONS"), ("node", "NODES")):
        found = re.search(rf"^{variable} := (.+)$", MAKEFILE, re.MULTILINE)
        assert found is not None
        assert jobs[job]["strategy"]["matrix"][job] == found[1].split()


def test_only_jobs_that_publish_or_attest_may_prove_who_they_are() -> None:
    jobs = jobs_of("release")
    proving = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert proving == {"build", "pypi", "npm"}
    # They run no code of the repository: what they publish was built and tried before.
    for name in ("pypi", "npm", "page"):
        assert not [step for step in steps_of(jobs[name]) if "checkout" in step.get("uses", "")]
    assert {"build"} <= {*jobs["pypi"]["needs"]} & {*jobs["npm"]["needs"]}


def test_owned_paths_exist() -> None:
    lines = (ROOT / ".github/CODEOWNERS").read_text("utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert paths
    assert [path for path in paths if not (ROOT / path.lstrip("/")).exists()] == []
