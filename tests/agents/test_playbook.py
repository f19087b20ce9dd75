"""The client that answers out of a file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agents.clients.playbook import PlaybookClient, PlaybookInvalid
from agents.clients.port import CallFailed, Client, Request
from agents.render import NodeView, render
from agents.replies.parse import Parsed, parse
from agents.templates import load
from events.bodies import CallParams, Usage

from .sources import KERNEL, TASK

BOOK = """
title = "Sum"
language = "cpp"
task = "task.py"
[kernels]
naive = "kernels/naive.py"
fast = "kernels/fast.py"
[[plan]]
on = "root"
advice = "Fuse the sum\\nand the activation."
begin = "c = a + b"
end = "d = torch.relu"
[[plan]]
on = "naive"
advice = "Work on rows."
begin = "for (int64_t"
end = "    }"
inside = "cpp"
[[plan]]
on = "*"
advice = "Anything."
[[code]]
on = "root"
visit = 0
kernel = "naive"
explanation = "One loop."
[[code]]
on = "root"
kernel = "fast"
[[code]]
on = "*"
visit = 7
kernel = "naive"
[[debug]]
on = "fast"
kernel = "naive"
"""


def book(folder: Path, text: str = BOOK) -> Path:
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / "task.py").write_text(TASK)
    (folder / "kernels/naive.py").write_text(KERNEL)
    (folder / "kernels/fast.py").write_text(KERNEL.replace("one at a time", "all at once"))
    (folder / "book.toml").write_text(text)
    return folder / "book.toml"


def request(role: str, source: str = TASK, visit: int = 0, ask: int = 0) -> Request:
    prompt = render(
        load(),
        role=role,
        language="cpp",
        task_source=TASK,
        selected=NodeView(id=0, is_root=True, source=source),
    )
    return Request(
        role=role,
        model="book.toml",
        parts=prompt.parts,
        params=CallParams(max_tokens=100),
        tool=prompt.tool,
        node_source=source,
        visit=visit,
        ask=ask,
    )


async def answer(client: Client, asked: Request) -> Parsed:
    reply = await client.send(asked)
    assert reply.canned
    assert (reply.usage, reply.served_by, reply.sent) == (Usage(), "playbook", {})
    result = parse(asked.role, reply, asked.node_source)
    assert isinstance(result, Parsed), result
    return result


@pytest.mark.anyio
async def test_a_plan_marks_the_selected_source(tmp_path: Path) -> None:
    client: Client = PlaybookClient(book(tmp_path))
    assert client.canned
    plan = await answer(client, request("plan"))
    assert plan.annotated is not None
    assert (
        "        # <<<IMPROVE BEGIN>>>\n        # Fuse the sum\n        # and the activation.\n"
        "        c = a + b" in plan.annotated
    )
    plan = await answer(client, request("plan", KERNEL))
    assert plan.annotated is not None
    assert "/* <<<IMPROVE BEGIN>>> */\n    // Work on rows.\n    for" in plan.annotated
    plan = await answer(client, request("plan", KERNEL.replace("one at a time", "all at once")))
    assert plan.annotated is not None
    assert "# Anything.\n        return torch.relu(fused" in plan.annotated
    await client.aclose()


@pytest.mark.anyio
async def test_entries_are_found_by_role_source_and_visit(tmp_path: Path) -> None:
    client = PlaybookClient(book(tmp_path))
    fast = KERNEL.replace("one at a time", "all at once")
    assert (await answer(client, request("code"))).source == KERNEL
    assert (await answer(client, request("code", ask=1))).source == KERNEL
    assert (await answer(client, request("code", visit=1))).source == fast
    assert (await answer(client, request("code", KERNEL, visit=7))).source == KERNEL
    # Sources are known by what they mean, not by their bytes.
    assert (await answer(client, request("debug", fast.replace("\n", "  \r\n")))).source == KERNEL
    # What is none of the kernels counts as the root.
    other = KERNEL.replace("one at a time", "elsewhere")
    assert (await answer(client, request("code", other))).source == KERNEL


@pytest.mark.anyio
async def test_nothing_to_say_is_a_failure_that_no_retry_helps(tmp_path: Path) -> None:
    client = PlaybookClient(book(tmp_path))
    with pytest.raises(
        CallFailed, match=r"no reply for role 'code' on 'naive' \(visit 1\)"
    ) as info:
        await client.send(request("code", KERNEL, visit=1))
    assert (info.value.error, info.value.retryable) == ("no_reply", False)
    with pytest.raises(CallFailed, match="does not fit the selected source: begin"):
        await client.send(request("plan", "class Other:\n    pass\n"))
    with pytest.raises(CallFailed, match="no reply for role 'single'"):
        await client.send(request("single"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Sum"', "title = ", "book.toml: is not TOML"),
        ('task = "task.py"', "", "missing required field `task`"),
        ('language = "cpp"', "speed = 3", "unknown field `speed`"),
        ("kernels/naive.py", "kernels/gone.py", "kernel 'naive': can't read 'kernels/gone.py'"),
        ("kernels/naive.py", "kernels/fast.py", "kernel 'fast': has the same source as 'naive'"),
        (
            "c = a + b",
            "c = b + a",
            r"\[\[plan\]\] entry 1 \(on = 'root'\): begin = 'c = b \+ a' is",
        ),
        ("d = torch.relu", "e =", r"entry 1 \(on = 'root'\): end = 'e =' is not found"),
        (
            'on = "naive"',
            'on = "niave"',
            r"entry 2 .*unknown label; the labels are root, \*, naive",
        ),
        ('kernel = "fast"', 'kernel = "x"', r"\[\[code\]\] entry 2 .*unknown kernel 'x'"),
        ("visit = 0\n", "", r"\[\[code\]\] entry 2 .*another entry has the same"),
        ("[kernels]", '[kernels]\nroot = "task.py"', "kernel 'root': this name is reserved"),
    ],
)
def test_what_is_wrong_with_a_playbook_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = book(tmp_path, BOOK.replace(old, new, 1))
    with pytest.raises(PlaybookInvalid, match=message) as info:
        PlaybookClient(path)
    assert str(path) in str(info.value)


def test_a_missing_playbook_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlaybookInvalid, match=r"gone\.toml: can't be read: No such file"):
        PlaybookClient(tmp_path / "gone.toml")


def test_its_facts(tmp_path: Path) -> None:
    client = PlaybookClient(book(tmp_path))
    assert (client.title, client.language) == ("Sum", "cpp")
    assert client.task_path == tmp_path / "task.py"
    assert "book.toml" in repr(client)
    assert msgspec.json.encode(client.title)


@pytest.mark.anyio
async def test_a_byte_order_mark_is_no_part_of_a_kernel(tmp_path: Path) -> None:
    path = book(tmp_path)
    (tmp_path / "kernels/naive.py").write_text(KERNEL, encoding="utf-8-sig")
    assert (await answer(PlaybookClient(path), request("code"))).source == KERNEL
