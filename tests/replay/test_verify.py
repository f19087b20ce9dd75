"""Whatever is done to a decision is found at that decision, in any search."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from events.bodies import Body
from events.codec import encode_body
from replay.verify import replay
from tests.engine.test_search import worlds
from tests.engine.world import World, as_events, team_of
from tests.thorough import examples

quick = settings(max_examples=examples(60), deadline=None)


def decisions(world: World) -> list[int]:
    """Where decisions stand, from 0."""
    return [at for at, body in enumerate(world.bodies) if body.KIND == "decision"]


def altered(body: Body, data: st.DataObject) -> tuple[Body, str]:
    """The body with one of its fields changed, and that field's name on the wire."""
    fields = {
        field.name: field
        for field in msgspec.structs.fields(body)
        if isinstance(getattr(body, field.name), int | str | list)
        and field.name not in ("rule", "status", "baseline", "reply")  # any word is no body
    }
    field = fields[data.draw(st.sampled_from(sorted(fields)))]
    value: Any = getattr(body, field.name)
    match value:
        case bool():
            other: Any = not value
        case int():
            other = value + 1
        case str():
            other = value + "!"
        case _:
            other = [*value, 99]
    return msgspec.structs.replace(body, **{field.name: other}), field.encode_name


@given(worlds, st.data())
@quick
def test_an_altered_field_is_named(world: World, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(decisions(world)))
    bodies = list(world.bodies)
    bodies[at], name = altered(bodies[at], data)
    difference = replay(as_events(bodies), team_of).difference
    assert difference is not None
    assert (difference.run_seq, difference.what) == (at + 1, "changed")
    assert [field.field for field in difference.fields] == [name]
    assert bytes(difference.computed or b"") == encode_body(world.bodies[at])
    assert difference.agreed.run_seq == at


@given(worlds, st.data())
@quick
def test_a_dropped_decision_is_missed_at_once(world: World, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(decisions(world)))
    dropped = world.bodies[at]
    report = replay(as_events(world.bodies[:at] + world.bodies[at + 1 :]), team_of)
    if at == len(world.bodies) - 1:
        assert (report.difference, report.due) == (None, dropped.TYPE)
        return
    difference = report.difference
    assert difference is not None
    assert (difference.run_seq, difference.computed_type) == (at + 1, dropped.TYPE)
    assert difference.what in ("changed", "missing")
    assert bytes(difference.computed or b"") == encode_body(dropped)


@given(worlds, st.data())
@quick
def test_any_prefix_agrees_and_says_what_is_due(world: World, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(world.bodies)))
    report = replay(as_events(world.bodies[:cut]), team_of)
    assert report.difference is None
    following = world.bodies[cut] if cut < len(world.bodies) else None
    decided = following is not None and following.KIND == "decision"
    assert report.due == (following.TYPE if following is not None and decided else None)


@given(worlds, st.data())
@quick
def test_a_doubled_decision_is_one_too_many(world: World, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(decisions(world)))
    bodies = [*world.bodies[: at + 1], *world.bodies[at:]]
    difference = replay(as_events(bodies), team_of).difference
    assert difference is not None
    assert difference.run_seq == at + 2
    assert difference.what in ("changed", "extra")
