# Generated from spec/operations.json by `make gen`. Do not edit.
"""The bodies of requests: a field has its name on the wire alone."""

import windlass_protocol as wire
from windlass_server.models import BY_ALIAS


class NewSession(wire.NewSession):
    __doc__ = wire.NewSession.__doc__
    model_config = BY_ALIAS


class NewMessage(wire.NewMessage):
    __doc__ = wire.NewMessage.__doc__
    model_config = BY_ALIAS


class Cancel(wire.Cancel):
    __doc__ = wire.Cancel.__doc__
    model_config = BY_ALIAS


class Fork(wire.Fork):
    __doc__ = wire.Fork.__doc__
    model_config = BY_ALIAS


class AgentSessionChange(wire.AgentSessionChange):
    __doc__ = wire.AgentSessionChange.__doc__
    model_config = BY_ALIAS


class Answer(wire.Answer):
    __doc__ = wire.Answer.__doc__
    model_config = BY_ALIAS


class NewPlaygroundRun(wire.NewPlaygroundRun):
    __doc__ = wire.NewPlaygroundRun.__doc__
    model_config = BY_ALIAS


class NewRunEvent(wire.NewRunEvent):
    __doc__ = wire.NewRunEvent.__doc__
    model_config = BY_ALIAS


class RetryRun(wire.RetryRun):
    __doc__ = wire.RetryRun.__doc__
    model_config = BY_ALIAS


class NewFeedback(wire.NewFeedback):
    __doc__ = wire.NewFeedback.__doc__
    model_config = BY_ALIAS


class NewSchedule(wire.NewSchedule):
    __doc__ = wire.NewSchedule.__doc__
    model_config = BY_ALIAS


class NewLimit(wire.NewLimit):
    __doc__ = wire.NewLimit.__doc__
    model_config = BY_ALIAS


class NewDataset(wire.NewDataset):
    __doc__ = wire.NewDataset.__doc__
    model_config = BY_ALIAS


class NewDatasetCase(wire.NewDatasetCase):
    __doc__ = wire.NewDatasetCase.__doc__
    model_config = BY_ALIAS


class DatasetCaseChange(wire.DatasetCaseChange):
    __doc__ = wire.DatasetCaseChange.__doc__
    model_config = BY_ALIAS


class NewProposal(wire.NewProposal):
    __doc__ = wire.NewProposal.__doc__
    model_config = BY_ALIAS


class ProposalTrial(wire.ProposalTrial):
    __doc__ = wire.ProposalTrial.__doc__
    model_config = BY_ALIAS


class Verdict(wire.Verdict):
    __doc__ = wire.Verdict.__doc__
    model_config = BY_ALIAS
