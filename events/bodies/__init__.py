"""Every fact that a run can log: past tense, frozen, with an explicit wire name.

A body is data only. ``kind`` says where it is from: ``in`` is something that happened to
the run and may steer it, ``decision`` is something the core decided from what it had
seen, ``meta`` is a note that steers nothing. Large texts are blobs; a body names them
by ``*_sha256``. To change a body: raise its ``ver`` and add an upcaster
(``events.upcast``); never change what an old version means.
"""

from __future__ import annotations

from events.bodies.body import BODIES, Body, Kind, Role
from events.bodies.calls import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    CallParams,
    CapabilityLearned,
    Pick,
    PromptRendered,
    ReplyDeferred,
    ReplyFile,
    ReplyForm,
    ReplyNotTaken,
    ReplyParsed,
    ReplyRejected,
    Usage,
    WaitEnded,
)
from events.bodies.evaluation import (
    DeviceQuarantined,
    EvaluationFaulted,
    EvaluationFinished,
    EvaluationRequested,
)
from events.bodies.run import (
    FORMAT,
    OLDER_FORMATS,
    BaselineMeasured,
    BaselineRequested,
    BudgetExhausted,
    DeadlineReached,
    GivenKernel,
    Price,
    RunForked,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    StopRequested,
    TaskRejected,
)
from events.bodies.selection import AttemptAbandoned, Draws, NodeSelected, Rule
from events.bodies.steering import (
    HintGiven,
    HintWithdrawn,
    NodeBanned,
    NodePinned,
    NodeUnbanned,
    NodeUnpinned,
)

__all__ = [
    "BODIES",
    "FORMAT",
    "OLDER_FORMATS",
    "AgentCalled",
    "AgentFailed",
    "AgentReplied",
    "AttemptAbandoned",
    "BaselineMeasured",
    "BaselineRequested",
    "Body",
    "BudgetExhausted",
    "CallParams",
    "CapabilityLearned",
    "DeadlineReached",
    "DeviceQuarantined",
    "Draws",
    "EvaluationFaulted",
    "EvaluationFinished",
    "EvaluationRequested",
    "GivenKernel",
    "HintGiven",
    "HintWithdrawn",
    "Kind",
    "NodeBanned",
    "NodePinned",
    "NodeSelected",
    "NodeUnbanned",
    "NodeUnpinned",
    "Pick",
    "Price",
    "PromptRendered",
    "ReplyDeferred",
    "ReplyFile",
    "ReplyForm",
    "ReplyNotTaken",
    "ReplyParsed",
    "ReplyRejected",
    "Role",
    "Rule",
    "RunForked",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "StopRequested",
    "TaskRejected",
    "Usage",
    "WaitEnded",
]
