"""Routes of evaluations: experiments with their cases, and data sets.

No route takes a scorer: one may name a function, and reading it would run code of the sender.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from windlass.errors import Conflict, Rejected
from windlass.evals import Case, Results
from windlass.evals.dataset import read_inputs
from windlass.evals.datasets import CaseChanges, case_name
from windlass_protocol import (
    Deleted,
    EvalComparison,
    EvalDataset,
    EvalDatasetCase,
    EvalDatasetPage,
    EvalDatasetView,
    EvalExperimentPage,
    EvalResult,
)
from windlass_server.generated.bodies import DatasetCaseChange, NewDataset, NewDatasetCase
from windlass_server.generated.queries import (
    DatasetsDeleteCaseQuery,
    ExperimentsCompareQuery,
    ExperimentsListQuery,
    PageQuery,
)
from windlass_server.openapi import (
    DATASET_CASE_EXAMPLE,
    DATASET_EXAMPLE,
    EVAL_CASE_EXAMPLE,
    EVAL_COMPARISON_EXAMPLE,
    EXPERIMENT_EXAMPLE,
    answers,
    body_example,
)
from windlass_server.problems import Problem, not_found
from windlass_server.requests import (
    PREFIX,
    CallerDep,
    OwnDataset,
    OwnExperiment,
    PageDep,
    experiment_of,
    reply,
)
from windlass_server.routing import Route

YAML_TYPE = "application/yaml"
experiments = APIRouter(prefix=PREFIX, tags=["experiments"], route_class=Route)
datasets = APIRouter(prefix=PREFIX, tags=["datasets"], route_class=Route)
Named = Annotated[str | None, Field(min_length=1, max_length=512)]


@experiments.get(
    "/experiments",
    response_model=EvalExperimentPage,
    responses=answers(200, {"experiments": [EXPERIMENT_EXAMPLE]}),
)
async def list_experiments(caller: CallerDep, query: Annotated[ExperimentsListQuery, Query()]) -> Response:
    """Return your experiments, the newest first; one that has not ended with what was scored so far."""
    page = await Results(caller.tenant.runtime).list(
        owner=caller.principal.user,
        agent_id=query.agent,
        dataset=query.dataset,
        after=query.after,
        limit=query.limit,
    )
    return reply(EvalExperimentPage(experiments=page.items, next=page.next))


@experiments.get(
    "/experiments/{experiment_id:path}",
    response_model=EvalResult,
    responses=answers(200, {"experiment": EXPERIMENT_EXAMPLE, "cases": [EVAL_CASE_EXAMPLE]}),
)
async def get(experiment: OwnExperiment) -> Response:
    """Return an experiment with its attempts at cases."""
    return reply(EvalResult(experiment=experiment.experiment, cases=experiment.cases))


@experiments.get(
    "/experiments/{experiment_id:path}/comparison",
    response_model=EvalComparison,
    responses=answers(200, EVAL_COMPARISON_EXAMPLE),
)
async def comparison(
    caller: CallerDep, experiment: OwnExperiment, query: Annotated[ExperimentsCompareQuery, Query()]
) -> Response:
    """Compare an experiment with an older one of yours, case by case."""
    return reply(experiment.compare(await experiment_of(caller, query.old)))


@datasets.get(
    "/datasets",
    response_model=EvalDatasetPage,
    responses=answers(200, {"datasets": [DATASET_EXAMPLE]}),
)
async def list_datasets(caller: CallerDep, page: Annotated[PageQuery, Query()]) -> Response:
    """Return your data sets by name."""
    datasets_page = await caller.datasets.list(after=page.after, limit=page.limit)
    return reply(EvalDatasetPage(datasets=datasets_page.items, next=datasets_page.next))


@datasets.post(
    "/datasets",
    response_model=EvalDataset,
    responses=answers(200, DATASET_EXAMPLE),
)
async def make_dataset(
    *, caller: CallerDep, body: Annotated[NewDataset, body_example(prices={"name": "prices"})]
) -> Response:
    """Make a data set without cases; yours with this name stays as it is."""
    return reply(await caller.datasets.make(body.name))


@datasets.get(
    "/datasets/{dataset_id:path}",
    response_model=EvalDatasetView,
    responses=answers(200, {"dataset": DATASET_EXAMPLE, "cases": [DATASET_CASE_EXAMPLE]}),
)
async def get_dataset(caller: CallerDep, dataset: OwnDataset, page: PageDep) -> Response:
    """Return a data set with a page of its cases, in their order."""
    cases = await caller.datasets.cases(dataset.name, after=page.after, limit=page.limit)
    return reply(EvalDatasetView(dataset=dataset, cases=cases.items, next=cases.next))


@datasets.get(
    "/datasets/{dataset_id:path}/yaml",
    response_class=Response,
    responses=answers(
        200, "name: prices\ncases:\n- name: oslo\n  inputs: Price of Oslo\n", media_type=YAML_TYPE
    ),
)
async def download_dataset(caller: CallerDep, dataset: OwnDataset) -> Response:
    """Return a data set as a YAML file in the form of pydantic-evals."""
    text = await caller.datasets.text(dataset.name)
    safe = "".join(
        char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in dataset.name
    )
    headers = {"content-disposition": f'attachment; filename="{safe}.yaml"'}
    return Response(text, media_type=YAML_TYPE, headers=headers)


@datasets.delete(
    "/datasets/{dataset_id:path}",
    response_model=Deleted,
    responses=answers(200, {"deleted": ["prices"]}),
)
async def delete_dataset(caller: CallerDep, dataset: OwnDataset) -> Response:
    """Delete a data set with its cases; experiments on it stay."""
    await caller.datasets.delete(dataset.name)
    return reply(Deleted(deleted=(dataset.name,)))


@datasets.post(
    "/datasets/{dataset_id:path}/cases",
    response_model=EvalDatasetCase,
    responses=answers(200, DATASET_CASE_EXAMPLE),
)
async def add_case(
    *,
    caller: CallerDep,
    dataset: OwnDataset,
    body: Annotated[
        NewDatasetCase,
        body_example(
            run={"runId": "019a8f…", "tags": ["smoke"]},
            inputs={"name": "oslo", "inputs": "Price of Oslo", "expected": "90 crowns"},
        ),
    ],
) -> Response:
    """Add a case to a data set: from a run of yours, or from inputs. An equal case stays as it is."""
    changes = _case_changes(body)
    if body.run_id is None:
        if "inputs" not in changes:
            raise Problem(422, "inputs are missing: give inputs, or the runId of a recorded run")
        case = Case(body.name or case_name(body.inputs), **changes)
        return reply(await caller.datasets.add(dataset.name, case))
    if await caller.sessions.find_run(body.run_id) is None:
        raise not_found("run")
    added = await caller.datasets.add_run(dataset.name, body.run_id, case=body.name, **changes)
    return reply(added)


@datasets.patch(
    "/datasets/{dataset_id:path}/cases",
    response_model=EvalDatasetCase,
    responses=answers(200, DATASET_CASE_EXAMPLE),
)
async def change_case(
    *,
    caller: CallerDep,
    dataset: OwnDataset,
    body: Annotated[DatasetCaseChange, body_example(expected={"name": "oslo", "expected": "95 crowns"})],
) -> Response:
    """Change inputs, expected answer, tags or metadata of the case that `name` names; the rest stays."""
    try:
        return reply(await caller.datasets.change(dataset.name, body.name, **_case_changes(body)))
    except Conflict:
        pass
    raise not_found("case")


@datasets.delete(
    "/datasets/{dataset_id:path}/cases",
    response_model=EvalDataset,
    responses=answers(200, DATASET_EXAMPLE),
)
async def delete_case(
    caller: CallerDep, dataset: OwnDataset, query: Annotated[DatasetsDeleteCaseQuery, Query()]
) -> Response:
    """Delete a case of a data set."""
    try:
        await caller.datasets.remove(dataset.name, query.name)
    except (Conflict, Rejected):  # no case has such a name
        raise not_found("case") from None
    return reply(await caller.datasets.get(dataset.name))


def _case_changes(body: NewDatasetCase | DatasetCaseChange) -> CaseChanges:
    """Return the parts of a case that a body has; null as the expected answer is one."""
    fields: BaseModel = body
    values = {
        name: getattr(body, name) for name in CaseChanges.__annotations__ if name in fields.model_fields_set
    }
    if "inputs" in values:
        values["inputs"] = read_inputs(values["inputs"], "the case")
    return CaseChanges(**values)
