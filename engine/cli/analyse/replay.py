"""``engine replay``: a search again from its log, and an account of the first difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from engine.cli.address import Opened, open_run
from engine.cli.exits import Exit
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.views.draw import printable, value_text
from engine.cli.views.event_lines import step_line
from engine.cli.views.table import table_lines
from events.errors import BlobRedacted

if TYPE_CHECKING:
    from engine.core.state import State
    from events.envelope import Event
    from replay.explain import Cause
    from replay.prompts import PromptCheck
    from replay.verify import Difference, Replay

__all__ = ["replay"]

_LIKELY = {"yes": "likely", "unknown": "possible", "no": "not this"}


@click.command()
@click.argument("log")
@click.option(
    "--verify", "verifying", is_flag=True,
    help="Only compare; without it the search is told step by step as well.",
)  # fmt: skip
@json_option
def replay(log: str, verifying: bool, as_json: bool) -> None:
    """Run LOG's search again from its recorded replies and evaluations.

    Recomputes every decision and compares it whole. Needs no network, no device and no
    model. At the first difference it says what differs and why that may be; exit code 5.
    """
    from engine.loop.methods import team_of
    from replay.verify import replay as run_again

    with open_run(log) as opened:
        events = opened.reader.events(opened.run.run_id)
        prompts = _prompt_check(opened)

        def watch(state: State, event: Event) -> None:
            if prompts is not None:
                prompts.watch(state, event)
            line = "" if verifying or as_json else step_line(event.body)
            if line:
                click.echo(f"{event.run_seq:>5}  {printable(line)}")

        report = run_again(events, team_of, watch=watch)
        causes: list[Cause] = []
        if report.difference is not None:
            from replay.explain import explain

            causes = explain(opened.reader, opened.run, report, team_of)
    if as_json:
        emit(_as_data(opened, report, causes, prompts))
    else:
        _tell(opened, report, causes, prompts)
    if report.difference is not None:
        raise click.exceptions.Exit(Exit.DIFFERENT)


def _prompt_check(opened: Opened) -> PromptCheck | None:
    """None for a redacted log: its decisions can be recomputed, its prompts can't."""
    from agents.templates import Templates
    from engine.loop.texts import Texts
    from replay.prompts import PromptCheck

    started = next(iter(opened.reader.events(opened.run.run_id, upto=1)), None)
    templates = getattr(started.body, "templates", {}) if started else {}
    try:
        texts = {name: opened.reader.text(sha) for name, sha in templates.items()}
    except BlobRedacted:
        return None
    return PromptCheck(Texts(opened.reader.text), Templates(texts=texts))


def _as_data(
    opened: Opened, report: Replay, causes: list[Cause], prompts: PromptCheck | None
) -> dict[str, Any]:
    return {
        "run": opened.run.uid,
        "log": opened.name,
        "events": report.events,
        "decisions": report.decisions,
        "digest": report.digest,
        "due": report.due,
        "difference": report.difference,
        "causes": causes,
        "prompts": prompts.rendered if prompts else None,
        "prompts_different": prompts.different if prompts else [],
    }


def _tell(opened: Opened, report: Replay, causes: list[Cause], prompts: PromptCheck | None) -> None:
    if report.difference is not None:
        for line in (*_difference_lines(report.difference), *_cause_lines(causes)):
            click.echo(printable(line), err=True)
    else:
        click.echo(
            f"{opened.name}: {report.decisions} decisions in {report.events} events agree,"
            f" digest {report.digest}"
        )
    if report.due is not None:
        click.echo(f"note: the log ends before a {report.due} that is due", err=True)
    if prompts is None:
        click.echo("note: this log is redacted: its prompts were not compared", err=True)
    elif prompts.different:
        click.echo(
            f"note: {len(prompts.different)} of {prompts.rendered} prompts would be worded"
            f" differently today (first: event {prompts.different[0]}); decisions do not"
            " depend on wording",
            err=True,
        )


def _difference_lines(difference: Difference) -> Iterator[str]:
    logged, computed = difference.logged_type, difference.computed_type
    yield (
        f"replay differs at event {difference.run_seq}: "
        + {
            "changed": f"{logged} is recorded, {'another one' if logged == computed else computed}"
            " is computed",
            "missing": f"{logged} is recorded where the core decides {computed} first",
            "extra": f"{logged} is recorded where the core decides nothing",
            "impossible": f"{logged} can't have happened here ({difference.error})",
            "unreadable": f"the event can't be read ({difference.error})",
        }[difference.what]
    )
    yield ""
    if difference.fields:
        # The digest has a line of its own below.
        fields = [field for field in difference.fields if field.field != "state_digest"]
        rows = [(f.field, value_text(f.logged), value_text(f.computed)) for f in fields]
        if rows:
            yield from (*table_lines(("field", "recorded", "computed"), rows), "")
    else:
        for name, body in ("recorded", difference.logged), ("computed", difference.computed):
            if body is not None:
                yield f"{name}  {bytes(body).decode()}"
        yield ""
    yield from _digest_lines(difference)
    yield ""


def _digest_lines(difference: Difference) -> Iterator[str]:
    logged, computed, agreed = (
        difference.logged_digest, difference.computed_digest, difference.agreed
    )  # fmt: skip
    if logged is None:
        yield f"state digest   {computed} computed; only selections record one"
    elif logged == computed:
        yield f"state digest   {computed}, recorded and computed: what led here is as it was"
    else:
        since = f"since event {agreed.digest_seq}" if agreed.digest_seq else "before"
        yield f"state digest   {logged} recorded,"
        yield f"               {computed} computed: what happened {since} differs"
    if not agreed.run_seq:
        yield "last agreeing  none"
        return
    digest = f"; digest {agreed.digest} at event {agreed.digest_seq}" if agreed.digest else ""
    yield f"last agreeing  event {agreed.run_seq}, {agreed.type}{digest}"


def _cause_lines(causes: list[Cause]) -> Iterator[str]:
    yield "likely causes"
    for cause in causes:
        yield f"  {_LIKELY[cause.likely]:<8}  {cause.cause}: {cause.evidence}"
