"""The default model as its provider serves it, and models that are not served any more."""

from __future__ import annotations

import json
import subprocess
from datetime import date, timedelta
from pathlib import Path

import anyio
import msgspec
import pytest

from agents.clients.anthropic import AnthropicClient, request_body
from agents.models import known_refusals, retirement_date
from agents.prices import price_of
from engine.cli.exits import Failure
from engine.cli.run import retired_models as retired
from engine.cli.settings.layers import resolve
from engine.config import Config
from events.bodies import CapabilityLearned
from events.reader import LogReader
from tests.agents.messages_api import error, events, message
from tests.agents.model_server import running, serve
from tests.agents.strict_api import StrictServer
from tests.agents.test_clients import REQUEST
from tests.cli.conftest import SEARCH, SMALL, engine_command, environment, run_engine
from tests.cli.test_models import CODE, PLAN
from tests.engine import model_runs

DEFAULT = Config().model
PAPERS = "anthropic:claude-sonnet-4-20250514"
SPAN = "```python\n" + PLAN["annotated_source"] + "\n```"
THOUGHT = {"thinking": "Hm. ```python\nclass ModelNew: ...\n```"}
PLANNED = events(*message(THOUGHT, f"{PLAN['advice']}\n{SPAN}"))
CODED = events(
    *message(THOUGHT, {"name": "code", "json": json.dumps(CODE)}, stop="tool_use", piece=200)
)


async def searched(
    server: StrictServer, log: Path, *args: object
) -> subprocess.CompletedProcess[bytes]:
    return await anyio.run_process(
        engine_command(
            "run", SMALL / "task.py", "--yes", "--device", "cpu", "--language", "cpp", "--log", log,
            "--attempts", 2, "--set", "search.policy=best_of_k", "--json", *args,
        ),
        check=False, stdin=None,
        env=environment(ANTHROPIC_API_KEY="sk-none", ANTHROPIC_BASE_URL=server.url),
    )  # fmt: skip


@pytest.mark.process
@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.parametrize("thinking", [0, 8192])
async def test_the_default_model_is_asked_for_nothing_that_it_refuses(
    tmp_path: Path, thinking: int
) -> None:
    settings = [f"roles.{role}.thinking={thinking}" for role in ("plan", "code")]
    assigned = [part for setting in settings for part in ("--set", setting)]
    async with running(StrictServer(PLANNED, CODED, PLANNED, CODED)) as server:
        done = await searched(server, tmp_path / "log.db", *assigned)
    assert done.returncode in (0, 4), done.stderr.decode()
    summary = json.loads(done.stdout)
    assert summary["status"] == "finished"
    assert server.refused == []
    assert {body["model"] for body in server.taken} == {DEFAULT.partition(":")[2]}
    assert len(server.taken) == 4
    assert all(body["tools"] for body in server.taken)
    assert all(body["max_tokens"] >= 32_000 for body in server.taken), "room to think and answer"
    said = {str(body.get("thinking")) for body in server.taken}
    assert said == ({"{'type': 'adaptive'}"} if thinking else {"None"})
    assert b"retired" not in done.stderr


@pytest.mark.process
@pytest.mark.process
@pytest.mark.anyio
async def test_a_model_that_is_not_in_the_table_refuses_each_parameter_once(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.db"
    async with running(StrictServer(PLANNED, CODED, PLANNED, CODED)) as server:
        done = await searched(
            server, log, "--model", "anthropic:claude-next-9", "--set", "roles.plan.thinking=8192"
        )
    assert done.returncode in (0, 4), done.stderr.decode()
    assert json.loads(done.stdout)["status"] == "finished"
    assert len(server.taken) == 4
    assert len(server.refused) == len(set(server.refused)) == 3
    with LogReader(log) as reader:
        learned = [e.body.param for e in reader.events(1) if isinstance(e.body, CapabilityLearned)]
    assert learned == ["budget_tokens", "temperature", "tool_choice"]


def test_the_default_model_is_served_priced_and_known() -> None:
    assert retirement_date(DEFAULT) is None
    price = price_of(DEFAULT)
    assert price is not None
    assert msgspec.structs.astuple(price) == (2_000_000, 10_000_000, 100_000, 2_500_000)
    name = DEFAULT.partition(":")[2]
    assert known_refusals(name) == {"temperature", "budget_tokens", "tool_choice"}
    assert known_refusals(f"{name}-20260928") == known_refusals(name)
    body = request_body(msgspec.structs.replace(REQUEST, model=name))
    assert not {"temperature", "thinking", "tool_choice"} & set(body)
    assert known_refusals("claude-haiku-4-5") == frozenset()


@pytest.mark.process
@pytest.mark.process
def test_the_papers_preset_asks_for_a_model_that_is_served(tmp_path: Path) -> None:
    done = run_engine(
        "run", SMALL / "task.py", "--preset", "paper", "--language", "cpp", "--device", "cpu",
        cwd=tmp_path, ANTHROPIC_API_KEY="sk-none", ANTHROPIC_BASE_URL="http://127.0.0.1:9",
    )  # fmt: skip
    assert done.returncode == 2
    assert (
        f"{PAPERS}, the paper's own model, was retired on 2026-06-15, and is not served any more:"
        " name a served model with --model" in done.stderr
    )
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.process
def test_the_papers_preset_works_with_another_model(tmp_path: Path) -> None:
    done = run_engine(*SEARCH, "--preset", "paper", "--language", "cpp", "--attempts", 1,
                      cwd=tmp_path)  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    file = tmp_path / "c.toml"
    file.write_text('model = "playbook:x"\n')
    for environment_, path in (({"ENGINE_MODEL": "playbook:x"}, None), ({}, file)):
        resolved = resolve(
            preset="paper", file=path, environment=environment_, assignments=[], flags={}
        )
        papers = resolve(preset="paper", file=None, environment={}, assignments=[], flags={})
        assert resolved == msgspec.structs.replace(papers, model="playbook:x")


@pytest.mark.process
@pytest.mark.anyio
async def test_an_old_run_of_a_retired_model_goes_on_as_a_fork(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    old = msgspec.structs.replace(model_runs.config(attempts=2), model=PAPERS)
    async with serve(error(401, "authentication_error", "no")) as server:
        client = AnthropicClient(api_key="sk-none", base_url=server.url)
        ran = await model_runs.search(log, client, old, more={PAPERS: client})
        await client.aclose()
    assert ran.state.paused
    with LogReader(log) as reader:
        newest = reader.newest_run_seq(1)
    done = await anyio.to_thread.run_sync(
        lambda: run_engine("resume", log, "--yes", cwd=tmp_path, ANTHROPIC_API_KEY="sk-none")
    )
    assert done.returncode == 2
    assert f"{PAPERS}, the paper's own model, was retired on 2026-06-15" in done.stderr
    assert f"engine fork {log} --at {newest} --set model=MODEL" in done.stderr
    with LogReader(log) as reader:
        assert reader.newest_run_seq(1) == newest
        assert len(reader.runs()) == 1


def test_a_model_is_refused_after_its_last_day(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "anthropic:claude-sonnet-4-5-20250929"
    last = retirement_date(spec)
    assert last == date(2026, 11, 30)
    assert retirement_date("anthropic-batch:claude-sonnet-4-5") == last
    for elsewhere in ("bedrock:claude-sonnet-4-5", "openai:claude-sonnet-4-5", "vertex:x"):
        assert retirement_date(elsewhere) is None
    monkeypatch.setattr(retired, "today", lambda: last)
    retired.refuse_retired([spec, "playbook:x"], "do so")
    monkeypatch.setattr(retired, "today", lambda: last + timedelta(days=1))
    told = r"-20250929 was retired on 2026-11-30, .*: do so, such as"
    with pytest.raises(Failure, match=told) as info:
        retired.refuse_retired(["playbook:x", spec], "do so")
    assert info.value.code == 2
    assert "paper" not in str(info.value)


def test_a_model_near_its_end_is_warned_of_in_one_line() -> None:
    spec = "anthropic:claude-sonnet-4-5"
    last = date(2026, 11, 30)
    for days, warned in ((61, False), (60, True), (0, True)):
        lines = list(retired.retiring_lines([spec, DEFAULT], last - timedelta(days=days)))
        assert len(lines) == warned
        assert all(f"{spec} is retired on 2026-11-30" in line for line in lines)
        assert not any("\n" in line for line in lines)


def test_each_retired_model_is_named_by_the_key_that_set_it() -> None:
    config = resolve(
        preset=None, file=None, environment={}, flags={},
        assignments=[f"roles.plan.models={PAPERS},{DEFAULT}", f"roles.code.model={PAPERS}"],
    )  # fmt: skip
    assert retired.set_instead(config) == (
        "name a served model with --set roles.plan.models=MODEL --set roles.code.model=MODEL"
    )
    assert retired.fork_instead(Config(model=PAPERS), "a log.db", 7) == (
        "resume keeps a run's models; go on with another in a fork: engine fork 'a log.db' --at 7"
        " --set model=MODEL, with a served MODEL"
    )
