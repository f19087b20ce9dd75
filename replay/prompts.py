"""Would the same prompts be sent today? Renders each again and compares its hash.

Wording does not steer the search, so a difference here is reported beside a replay,
not as a failure of it. Texts and templates come from the log; what can differ is the
code that puts them together.
"""

from __future__ import annotations

from agents.templates import Templates
from engine.core.state import State
from engine.loop.prompts import request_digest, request_for
from engine.loop.texts import Texts
from events.bodies import PromptRendered
from events.envelope import Event

__all__ = ["PromptCheck"]


class PromptCheck:
    """Give ``watch`` to ``replay``; then ``different`` lists the events that differ."""

    def __init__(self, texts: Texts, templates: Templates) -> None:
        self._texts = texts
        self._templates = templates
        self.rendered = 0
        self.different: list[int] = []

    def watch(self, state: State, event: Event) -> None:
        """See ``replay.verify.replay``."""
        body = event.body
        if not isinstance(body, PromptRendered):
            return
        call = state.attempts[body.attempt].call
        self.rendered += 1
        if call is None or (call.body.call, call.body.try_) != (body.call, body.try_):
            self.different.append(event.run_seq)
            return
        request = request_for(state, call.body, self._texts, self._templates)
        if request_digest(request) != body.request_sha256:
            self.different.append(event.run_seq)
