"""What the corpus says of each shape, also over real sockets, and of its like."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.clients.anthropic import AnthropicClient
from agents.clients.openai import OpenAIClient
from agents.clients.port import Client, Tool
from agents.replies.parse import parse
from tests.agents.model_server import Script, response, serve, stream
from tests.agents.test_clients import REQUEST

from .shapes import SHAPES, TASK, Shape, as_stored, check, read_shape
from .table import table_lines

WIRE = [shape for shape in SHAPES if shape.wire in ("stream", "body")]
TEXTS = [shape for shape in SHAPES if shape.wire == "text"]
STREAMS = [shape for shape in SHAPES if shape.wire == "stream"]
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


def test_the_corpus_covers_servers_models_and_roles() -> None:
    assert len(SHAPES) >= 60
    assert len({shape.server for shape in SHAPES}) >= 6
    assert len({shape.model for shape in SHAPES}) >= 6


def test_the_page_has_the_corpus_table() -> None:
    page = (Path(__file__).parents[2] / "docs/replies.md").read_text()
    assert page.endswith("\n\n" + "\n".join([*table_lines(), ""]))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_read_as_the_corpus_says(shape: Shape) -> None:
    check(shape, read_shape(shape, shape.text))


def _script(shape: Shape) -> Script:
    body = shape.text.encode()
    if shape.wire == "body":
        return response(200, body)
    third = len(body) // 3
    return stream(body[:third], body[third : 2 * third], body[2 * third :])


@pytest.mark.anyio
@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_clients_read_the_same_off_the_wire(api: str) -> None:
    shapes = [shape for shape in WIRE if shape.api == api]
    async with serve(*map(_script, shapes)) as server:
        client: Client = (
            OpenAIClient(base_url=server.url)
            if api == "openai"
            else AnthropicClient(api_key="sk-key-0123456789", base_url=server.url)
        )
        for shape in shapes:
            tool = Tool(name=shape.role, description="", schema={"type": "object"})
            check(shape, await client.send(replace(REQUEST, role=shape.role, tool=tool)))
        await client.aclose()


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_a_stream_reads_the_same_wherever_it_is_cut(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(STREAMS))
    cuts = data.draw(st.lists(st.integers(0, 2**20), max_size=6))
    whole = read_shape(shape, shape.text)
    assert read_shape(shape, shape.text, cuts) == whole
    check(shape, whole)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_what_nobody_sees_changes_nothing(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([each for each in TEXTS if each.name != "crlf"]))
    text = shape.text
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(INVISIBLE)) + text[at:]
    if data.draw(st.booleans()):
        text = "\ufeff" + text
    if data.draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    check(shape, read_shape(shape, text))


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_an_indented_reply_is_read_the_same(data: st.DataObject) -> None:
    fenced = [
        each for each in TEXTS
        if each.expect.get("via") == "fence" and each.role == "code"
        and each.name != "fence_in_quote"  # four blanks before make it code that quotes
    ]  # fmt: skip
    shape = data.draw(st.sampled_from(fenced))
    blanks = " " * data.draw(st.integers(1, 8))
    text = "".join(blanks + line for line in shape.text.splitlines(keepends=True))
    check(shape, read_shape(shape, text))


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_half_a_reply_is_never_a_crash(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(TEXTS))
    text = shape.text[: data.draw(st.integers(0, len(shape.text)))]
    reply = read_shape(shape, text)
    assert text in as_stored(reply) or reply.text == text
    parse(shape.role, reply, TASK)
