"""The one way in: a fact is appended and folded, then whatever it leads to is decided.

Nothing else can happen in between, so the log's order is the order in which things
happened, and the decisions that follow from a fact stand right behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State
from events.bodies import Body
from events.envelope import Blob, Event
from events.writer import LogWriter

__all__ = ["Feed", "Observer"]

Observer = Callable[[Event, State], None]


class Feed:
    """One run of an open log with its state. ``on_decision`` performs what was decided."""

    def __init__(
        self, log: LogWriter, run_id: int, state: State, on_decision: Callable[[Body], None]
    ) -> None:
        self.state = state
        self.log = log
        self._run_id = run_id
        self._on_decision = on_decision
        self._observers: list[Observer] = []
        self._newest: Event | None = None

    def observe(self, observer: Observer) -> None:
        """Have ``observer`` see each event once it is folded."""
        self._observers.append(observer)

    def __call__(self, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        """Append a fact, fold it, then append, fold and perform every decision it leads to."""
        event = self.note(body, blobs)
        self.complete_decisions(perform=True)
        return event

    def complete_decisions(self, *, perform: bool) -> list[Body]:
        """Append what the core decides now, and return it; ``perform`` it as well."""
        decided = []
        while (decision := decide(self.state)) is not None:
            self.note(decision)
            decided.append(decision)
            if perform:
                self._on_decision(decision)
        return decided

    def note(self, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        """Append and fold one event, deciding nothing."""
        event = self._newest = self.log.append(self._run_id, body, blobs)
        self.state = evolve(self.state, event.body)
        for observer in self._observers:
            observer(event, self.state)
        return event

    async def durable(self, event: Event | None = None) -> None:
        """Return once ``event`` (by default the newest) survives a power loss."""
        event = event or self._newest
        if event is not None:
            await self.log.durable(event)
