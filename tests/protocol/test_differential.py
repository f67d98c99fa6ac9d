"""Three judges, thousands of slightly wrong values, one verdict on each."""

import pytest
from tests.depth import DEEP
from tests.protocol.judges import Case, definitions, examples, python_accepts, schema_accepts, zod_accepts
from tests.protocol.mutation import mutants

EVERY = 17 if DEEP else 37
"""Of the mutants of all valid examples, ask about each 37th; all of them take two minutes."""


def mutant_cases() -> list[Case]:
    every = (
        Case(case.type, f"{case.name}: {what}", value)
        for case in examples("valid")
        for what, value in mutants(case.value)
    )
    return [case for index, case in enumerate(every) if index % EVERY == 0]


@pytest.mark.node
@pytest.mark.slow
@pytest.mark.promise("W1")
def test_schema_python_and_zod_agree_about_every_mutant() -> None:
    cases = mutant_cases()
    disputed = [
        f"{case}: schema {schema}, python {python}, zod {zod}: {str(case.value)[:200]}"
        for case, zod in zip(cases, zod_accepts(cases), strict=True)
        if not (schema := schema_accepts(case)) == (python := python_accepts(case)) == zod
    ]
    assert disputed == []


@pytest.mark.uncounted
def test_the_mutants_are_many_and_some_of_them_are_right() -> None:
    cases = mutant_cases()
    assert len(cases) > 2_000
    accepted = sum(python_accepts(case) for case in cases)
    assert len(cases) * 0.2 < accepted < len(cases) * 0.8
    assert {case.type for case in cases} >= {name for name in definitions() if not name.endswith("Data")}
