"""A candidate that was judged, for what is done besides before its verdict is made."""

from __future__ import annotations

import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.builds.compile_pool import Candidate
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.diagnose.tool_run import Body
from gpu_sandbox.evaluate.resources import Opened


class JudgedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """``files`` are its build's. ``notes`` grow while more is found out."""

    opened: Opened
    limits: Limits
    request: EvaluationRequest
    candidate: Candidate
    files: BuildFiles
    judged: Judged
    notes: list[str]

    @property
    def device(self) -> Device:
        return self.judged.device

    def body(self, cores: tuple[int, ...]) -> Body:
        """What an extra run of it needs."""
        return Body(
            task_source=self.candidate.task_source,
            candidate_source=self.candidate.source,
            device=self.device,
            files=self.files,
            cores=cores,
            prebuilt=self.opened.compilers(self.device).prebuilt,
        )
