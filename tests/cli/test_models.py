"""The paid path without paying: the real command, the real SDK, a server on a real socket."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from events.bodies import AgentFailed, AgentReplied
from events.reader import LogReader
from tests.agents import completions_api
from tests.agents.messages_api import error, events, message
from tests.agents.model_server import Script, Stall, serve
from tests.cli.conftest import SMALL, engine_command, environment
from tests.replayed import replayed

pytestmark = [pytest.mark.anyio, pytest.mark.process]


@pytest.fixture
def anyio_backend() -> str:
    """One, because what differs between them is the client's: tests/agents runs it on both."""
    return "asyncio"


TASK = (SMALL / "task.py").read_text()
MARKED = TASK.replace(
    "        y = x * 2\n", "        # <<<IMPROVE BEGIN>>>\n        y = x * 2\n"
).replace("        y = y + 1\n", "        y = y + 1\n        # <<<IMPROVE END>>>\n")
PLAN = {"advice": "Fold the two steps.", "annotated_source": MARKED}
CODE = {"explanation": "Folded.", "source": (SMALL / "fused.py").read_text()}


def tool(name: str, answer: dict[str, str]) -> Script:
    return events(*message({"name": name, "json": json.dumps(answer)}, stop="tool_use", piece=200))


async def test_a_search_over_the_wire(tmp_path: Path, anyio_backend: str) -> None:
    """A 529 is retried as a logged decision, then plan and code arrive and are judged."""
    log = tmp_path / "log.db"
    async with serve(
        error(529, "overloaded_error", "busy"), tool("plan", PLAN), tool("code", CODE)
    ) as server:
        done = await anyio.run_process(
            engine_command(
                "run", SMALL / "task.py", "--model", "anthropic:claude-sonnet-5-5", "--yes",
                "--device", "cpu", "--attempts", 1, "--budget-usd", 1, "--log", log,
                "--backend", anyio_backend, "--set", "search.retry_wait_ms=10", "--json",
                "--set", 'prices."anthropic:claude-sonnet-5-5"={input = 1, output = 2}',
            ),
            check=False, stdin=None,
            env=environment(
                ANTHROPIC_API_KEY="sk-secret-of-the-user", ANTHROPIC_BASE_URL=server.url
            ),
        )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr.decode()
    assert b'"status":"finished"' in done.stdout
    said = done.stderr.decode()
    assert "Expected: 2 calls, " in said
    assert "(guessed from this task's prompts)" in said
    assert "At most: 6 calls, " in said
    assert "Stops at $1, in all" in said
    assert "Prices: configuration." in said
    # 331 tokens in, cached ones among them, and 42 out, twice.
    assert json.loads(done.stdout)["cost_usd"] == pytest.approx(2 * (331 + 2 * 42) / 1e6)
    status = CliRunner().invoke(cli, ["status", str(log)]).stdout
    assert "prices     configuration\n" in status
    assert replayed(log).report.difference is None
    assert len(server.got) == 3
    assert not any("temperature" in got.body for got in server.got), "the model takes none"
    with LogReader(log) as reader:
        bodies = [event.body for event in reader.events(1)]
    assert [type(body) for body in bodies if isinstance(body, AgentFailed | AgentReplied)] == [
        AgentFailed, AgentReplied, AgentReplied,
    ]  # fmt: skip
    assert b"sk-secret-of-the-user" not in done.stdout + done.stderr + log.read_bytes()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_an_interrupt_does_not_wait_for_a_stalled_server(
    tmp_path: Path, backend: str
) -> None:
    """Within a second, on a machine with nothing else to do; the call's deadline is in minutes."""
    log = tmp_path / "log.db"
    stalled = events(*message("Let me")[:4], end=False)
    async with serve([*stalled, Stall()]) as server:
        process = await anyio.open_process(
            engine_command(
                "run", SMALL / "task.py", "--model", "anthropic:claude-sonnet-5-5", "--yes",
                "--device", "cpu", "--log", log, "--backend", backend, "--json",
            ),
            stdin=None, env=environment(
                ANTHROPIC_API_KEY="sk-secret-of-the-user", ANTHROPIC_BASE_URL=server.url
            ),
        )  # fmt: skip
        async with process:
            with anyio.fail_after(120):
                await server.stalled.wait()
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(5):
                assert await process.wait() == 130
            assert process.stderr is not None
            said = b"".join([piece async for piece in process.stderr]).decode()
        with anyio.fail_after(5):
            await server.hung_up.wait()
    assert f"interrupted. Go on with: engine resume {log}\n" in said
    whole = replayed(log)
    assert (whole.check.problems, whole.report.difference) == ([], None)
    assert whole.report.state.stopped == "interrupted"


async def test_a_server_that_wants_a_key_is_a_missing_prerequisite(
    tmp_path: Path, anyio_backend: str
) -> None:
    """The run pauses, says which variable to set, and can be resumed."""
    log = tmp_path / "log.db"
    async with serve(completions_api.error(401, "auth", "who are you?")) as server:
        done = await anyio.run_process(
            engine_command(
                "run", SMALL / "task.py", "--model", "openai:qwen", "--yes", "--device", "cpu",
                "--attempts", 1, "--log", log, "--backend", anyio_backend,
                "--set", f"clients.openai.base_url={server.url}/v1",
            ),
            check=False, stdin=None, env=environment(),
        )  # fmt: skip
    said = done.stderr.decode()
    assert done.returncode == 3, said
    assert f"will be sent to openai:qwen at {server.url}/v1" in said
    assert "401: who are you? (no key was sent: set OPENAI_API_KEY)" in said
    assert f"engine resume {log}" in said
    assert "authorization" not in server.got[0].headers
