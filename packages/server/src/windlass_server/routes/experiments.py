"""Routes of experiments: list, read and compare evaluations of agents."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from windlass.evals import Results
from windlass_protocol import EvalComparison, EvalExperimentPage, EvalResult
from windlass_server.models import Wire
from windlass_server.openapi import EVAL_CASE_EXAMPLE, EVAL_COMPARISON_EXAMPLE, EXPERIMENT_EXAMPLE, answers
from windlass_server.requests import PREFIX, CallerDep, OwnExperiment, experiment_of, reply
from windlass_server.routing import Route

router = APIRouter(prefix=PREFIX, tags=["experiments"], route_class=Route)


@router.get(
    "/experiments",
    response_model=EvalExperimentPage,
    responses=answers(200, {"experiments": [EXPERIMENT_EXAMPLE]}),
    summary="Your experiments",
)
async def list_experiments(caller: CallerDep) -> Response:
    """Return your experiments, the newest first."""
    found = await Results(caller.tenant.runtime).list()
    mine = tuple(one for one in found if one.owner == caller.principal.user)
    return reply(EvalExperimentPage(experiments=mine))


@router.get(
    "/experiments/{experiment_id:path}",
    response_model=EvalResult,
    responses=answers(200, {"experiment": EXPERIMENT_EXAMPLE, "cases": [EVAL_CASE_EXAMPLE]}, 404),
    summary="An experiment",
)
async def get(experiment: OwnExperiment) -> Response:
    """Return an experiment with its attempts at cases."""
    return reply(EvalResult(experiment=experiment.experiment, cases=experiment.cases))


class ComparisonQuery(Wire):
    """Query of a comparison."""

    old: Annotated[str, Field(min_length=1, max_length=512, description="The older experiment.")]


@router.get(
    "/experiments/{experiment_id:path}/comparison",
    response_model=EvalComparison,
    responses=answers(200, EVAL_COMPARISON_EXAMPLE, 400, 404),
    summary="Compare two experiments",
)
async def comparison(
    caller: CallerDep, experiment: OwnExperiment, query: Annotated[ComparisonQuery, Query()]
) -> Response:
    """Compare an experiment with an older one of yours, case by case."""
    return reply(experiment.compare(await experiment_of(caller, query.old)))
