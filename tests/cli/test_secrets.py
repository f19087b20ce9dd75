"""Keys stay out of logs, messages and children, also where a server echoes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from agents.clients.anthropic_batch import AnthropicBatchClient
from agents.clients.keys import header_secrets, reply_without, url_secrets
from agents.clients.open import KeyMissing, open_client
from agents.clients.port import CallFailed, Reply
from events.bodies import AgentFailed, AgentReplied, CapabilityLearned, ReplyRejected, RunPaused
from events.codec import encode_body
from events.reader import LogReader
from tests.agents import completions_api, messages_api
from tests.agents.batch_server import BatchServer, message
from tests.agents.dialects import CLOUDS, DIALECTS, KEY, Dialect
from tests.agents.model_server import Cut, Script, running, serve
from tests.agents.test_clients import REQUEST
from tests.cli.conftest import SMALL, engine_command, environment
from tests.cli.test_models import CODE, PLAN
from tests.engine.mail_runs import config as mail_config
from tests.engine.mail_runs import step

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


PLANTED = {
    "ANTHROPIC_API_KEY": "sk-ant-planted/0123456789+abc=",
    "MY_SERVER_KEY": "sk-srv-planted-9876543210",
    "OPENAI_API_KEY": "sk-oai-planted-1111111111",
    "AWS_SECRET_ACCESS_KEY": "aws-planted-2222222222",
    "HF_TOKEN": "hf_planted_3333333333",
    "ANTHROPIC_AUTH_TOKEN": "token-planted-4444444444",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway-Token: Bearer gw-planted-5555555555",
    "ANTHROPIC_WEBHOOK_SIGNING_KEY": "whsec-planted-6666666666",
    "ANTHROPIC_IDENTITY_TOKEN": "jwt-planted-7777777777",
    "ANTHROPIC_FOUNDRY_API_KEY": "foundry-planted-8888888888",
    "ANTHROPIC_AWS_API_KEY": "aws-api-planted-9999999999",
    "ANTHROPIC_ENVIRONMENT_KEY": "env-planted-1212121212",
    "ANTHROPIC_WORK_SECRET": "work-planted-1313131313",
    "AWS_BEARER_TOKEN_BEDROCK": "bedrock-planted-1414141414",
    "AWS_SESSION_TOKEN": "session-planted-1515151515",
    "AWS_ACCESS_KEY_ID": "AKIAPLANTED161616161",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=otel-planted-1818181818",
    "GOOGLE_APPLICATION_CREDENTIALS": "/planted/1717171717.json",
}
"""Those that are used, others that the SDKs of all clients read, and others that people have."""
GATEWAY = "gw-planted-5555555555"


def forms() -> list[bytes]:
    planted = [*PLANTED.values(), GATEWAY]
    both = {form for key in planted for form in (key, quote(key, safe=""))}
    return [form.encode() for form in both]


def all_of(log: Path) -> bytes:
    """Every body and every text of a log, unpacked, and what lies beside it as it is."""
    found = [path.read_bytes() for path in log.parent.rglob("*") if path.is_file()]
    with LogReader(log) as reader:
        for event in reader.events(1):
            found += [encode_body(event.body), *map(reader.blob, event.blobs)]
    return b"\n".join(found)


def children_of(pid: int) -> dict[int, tuple[bytes, bytes]]:
    """Environment and command line of every process below ``pid``, out of /proc."""
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path("/proc", entry.name, "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    below, found = {pid}, {}
    for child in sorted(parents):
        line = [child]
        while line[-1] in parents and line[-1] not in below:
            line.append(parents[line[-1]])
        if line[-1] in below and child != pid:
            below.update(line)
            try:
                read = [Path("/proc", str(child), name).read_bytes()
                        for name in ("environ", "cmdline")]  # fmt: skip
            except OSError:
                continue
            found[child] = (read[0], read[1])
    return found


def troubles(api: str, key: str) -> list[Script]:
    """What a server can say instead of a usable reply, each with the key in it."""
    echo = f"you sent {key}, that is {quote(key, safe='')}"
    if api == "anthropic":
        made = messages_api
        whole = messages_api.events(*messages_api.message(echo), end=True)
        nonsense = messages_api.events(
            *messages_api.message({"name": "plan", "json": f'{{"advice": "{echo}'})
        )
        broken = [
            *messages_api.events(*messages_api.message(echo)[:4], end=False),
            *messages_api.events(
                {"type": "error", "error": {"type": "overloaded_error", "message": echo}}
            )[1:],
        ]
        refused = "temperature is not supported"
    else:
        made = completions_api  # type: ignore[assignment]
        whole = completions_api.chunks(*completions_api.completion(echo))
        nonsense = completions_api.chunks(
            *completions_api.completion({"name": "code", "json": f'{{"source": "{echo}'})
        )
        broken = completions_api.chunks(
            *completions_api.completion(echo)[:2],
            {"error": {"message": echo, "type": "overloaded"}},
            end=False,
        )
        refused = "temperature is unsupported"
    return [
        made.error(429, "rate_limit_error", echo),
        made.error(500, "api_error", echo),
        made.error(400, "invalid_request_error", f"{refused}: {echo}"),
        broken,
        [*broken[:2], Cut()],
        whole,
        nonsense,
    ]


def plan_answer() -> Script:
    answer = {"name": "plan", "json": json.dumps(PLAN)}
    return messages_api.events(*messages_api.message(answer, stop="tool_use", piece=200))


def code_answer() -> Script:
    answer = {"name": "code", "json": json.dumps(CODE)}
    return completions_api.chunks(*completions_api.completion(answer, stop="tool_use", piece=200))


@pytest.mark.process
async def test_no_planted_key_is_in_log_messages_or_children(tmp_path: Path) -> None:
    """A planner of one provider and a coder of another fail in every way, then succeed; then a
    key is not accepted. Each server repeats the key that it was sent."""
    log = tmp_path / "log.db"
    anthropic, mine = PLANTED["ANTHROPIC_API_KEY"], PLANTED["MY_SERVER_KEY"]
    refusal = messages_api.error(
        401, "authentication_error", f"invalid x-api-key: {anthropic} ({GATEWAY} came through)"
    )
    children: dict[int, tuple[bytes, bytes]] = {}
    async with (
        serve(*troubles("anthropic", anthropic), plan_answer(), refusal) as planner,
        serve(*troubles("openai", mine), code_answer()) as coder,
    ):
        command = engine_command(
            "run", SMALL / "task.py", "--yes", "--device", "cpu", "--attempts", 2, "--log", log,
            "--set", "roles.plan.model=anthropic:claude-haiku-4-5",
            "--model", "openai:mine", "--set", f"clients.openai.base_url={coder.url}/v1",
            "--set", "clients.openai.key_name=MY_SERVER_KEY", "--set", "search.retry_wait_ms=1",
        )  # fmt: skip
        env = environment(**PLANTED, ANTHROPIC_BASE_URL=planner.url)
        said: list[bytes] = []
        async with (
            await anyio.open_process(command, stdin=None, env=env) as process,
            anyio.create_task_group() as reading,
        ):
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                reading.start_soon(_read, stream, said)
            while process.returncode is None:
                children.update(children_of(process.pid))
                with anyio.move_on_after(0.05):
                    await process.wait()
        assert process.returncode == 3, b"".join(said).decode()
        assert anthropic in str(planner.got[0].headers)
        assert planner.got[0].headers["x-gateway-token"] == f"Bearer {GATEWAY}"
        assert coder.got[0].headers["authorization"] == f"Bearer {mine}"
    everything = all_of(log)
    with LogReader(log) as reader:
        bodies = [event.body for event in reader.events(1)]
    for kind, least in ((AgentFailed, 9), (ReplyRejected, 4), (CapabilityLearned, 2),
                        (AgentReplied, 6), (RunPaused, 1)):  # fmt: skip
        assert sum(isinstance(body, kind) for body in bodies) >= least, kind
    assert b"you sent \xe2\x80\xa6, that is \xe2\x80\xa6" in everything, "the echoes are there"
    assert "… (… came through)".encode() in everything
    assert b"check ANTHROPIC_API_KEY" in b"".join(said)
    environments = [environ for environ, _ in children.values()]
    # Without root, those that took another uid can't be looked into.
    least = 3 if os.geteuid() == 0 else 1
    assert sum(b"HOME=" in environ for environ in environments) >= least
    for form in forms():
        assert form not in everything
        assert form not in b"".join(said)
        for pid, texts in children.items():
            if texts[1].startswith(b"uname\0"):  # Python's own, as it looks up the platform
                continue
            assert form not in b"\0".join(texts), (pid, texts[1])


async def _read(stream: anyio.abc.ByteReceiveStream, into: list[bytes]) -> None:
    async for chunk in stream:
        into.append(chunk)


async def test_a_batch_that_echoes_the_key(tmp_path: Path) -> None:
    key, log = PLANTED["ANTHROPIC_API_KEY"], tmp_path / "log.db"
    inner = {"type": "invalid_request_error", "message": f"not with {key}"}
    results = iter([{"type": "errored", "error": inner}, message(f"I was sent {key}")])
    server = BatchServer(lambda params: next(results, None))
    server.ended = True
    server.refusals = [messages_api.error(529, "overloaded_error", f"busy with {key}")]
    async with running(server):
        client = AnthropicBatchClient(api_key=key, base_url=server.url, poll_s=0.01)
        config = mail_config(retry_wait_ms=1)
        for _ in range(3):
            await step(log, client, config, wait_s=0.2)
        await client.aclose()
    everything = all_of(log)
    for echo in ("busy with", "not with", "I was sent"):
        assert f"{echo} \N{HORIZONTAL ELLIPSIS}".encode() in everything
    assert not [form for form in forms() if form in everything]


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "http://me:planted-pass@127.0.0.1/v1"},
        {"base_url": "http://me:planted-pass"},
        {"base_url": "http://127.0.0.1/v1?key=planted-pass"},
        {"key_name": "sk-planted-pass"},
        {"api_key": "planted-pass\n\N{SNOWMAN}"},
    ],
)
def test_what_is_refused_is_not_repeated(settings: dict[str, str]) -> None:
    with pytest.raises((ValueError, KeyMissing)) as refused:
        open_client("openai:mine", **settings)  # type: ignore[arg-type]
    assert "planted-pass" not in str(refused.value)


@pytest.mark.parametrize("api", DIALECTS, ids=lambda api: api.name)
@pytest.mark.parametrize("proxy", ["http://me:planted-pass", "bad://me:planted-pass@host:1"])
async def test_a_proxys_password_is_not_repeated(
    api: Dialect, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    client = api.client("http://127.0.0.1:9")
    with pytest.raises(CallFailed, match="the proxy that the environment names") as failed:
        await client.send(REQUEST)
    assert "planted-pass" not in str(failed.value)
    assert failed.value.__context__ is None or failed.value.__suppress_context__


def test_a_key_of_one_word_is_no_secret_and_leaves_code_alone() -> None:
    reply = Reply(
        text="if none: use none", tool_input={"source": "x = none"}, usage=None,
        stop_reason="end_turn", served_by="none", sent={},
    )  # fmt: skip
    assert reply_without(reply, ("none",)) == reply
    hidden = reply_without(reply, ("none", "if none: use none"))
    assert (hidden.text, hidden.tool_input) == ("…", {"source": "x = none"})


def test_what_headers_and_urls_hold_that_is_secret() -> None:
    lines = (
        "X-Gateway: Bearer gw-0123456789abc\nX-Env: prod\nno header\nX-Empty:\nX-Id: a:b:c:d:e:f:g"
    )
    assert set(header_secrets(lines)) == {
        "Bearer gw-0123456789abc", "gw-0123456789abc", "a:b:c:d:e:f:g",
    }  # fmt: skip
    assert header_secrets("") == ()
    assert url_secrets("https://me:pass%2Fword@host/v1") == ("pass%2Fword", "pass/word")
    assert url_secrets("https://host/v1") == url_secrets("https://[bad") == url_secrets(None) == ()


@pytest.mark.parametrize(
    ("api", "name", "value", "secret"),
    [
        ("anthropic", "ANTHROPIC_CUSTOM_HEADERS", f"X-Token: {GATEWAY}", GATEWAY),
        ("bedrock", "ANTHROPIC_CUSTOM_HEADERS", f"X-Token: {GATEWAY}", GATEWAY),
        ("vertex", "ANTHROPIC_CUSTOM_HEADERS", f"X-Token: {GATEWAY}", GATEWAY),
        ("bedrock", "AWS_SESSION_TOKEN", "session-planted-1", "session-planted-1"),
    ],
)
async def test_what_the_environment_adds_to_a_request_is_not_repeated(
    api: str, name: str, value: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    dialect = next(each for each in (*DIALECTS, *CLOUDS) if each.name == api)
    echo = f"you sent {secret}"
    async with serve(dialect.error(400, echo), dialect.reply(echo)) as server:
        client = dialect.client(server.url)
        with pytest.raises(CallFailed, match="you sent …"):
            await client.send(REQUEST)
        reply = await client.send(REQUEST)
        await client.aclose()
    assert reply.text == "you sent …"
    if name == "ANTHROPIC_CUSTOM_HEADERS":
        assert server.got[0].headers["x-token"] == GATEWAY
