"""``engine trace`` against a collector on a real socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli.conftest import run_engine

pytestmark = pytest.mark.process

LOG = Path(__file__).parents[1] / "histories" / "steered.db"


class Collector(HTTPServer):
    """Keeps what it is sent, and answers ``status``."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.got: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1/traces"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = self.server
        assert isinstance(collector, Collector)
        body = self.rfile.read(int(self.headers["content-length"]))
        collector.headers.append({name.lower(): value for name, value in self.headers.items()})
        collector.got.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(collector.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    with Collector(status) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        yield collector
        collector.shutdown()
        thread.join()


def test_a_run_arrives_as_one_trace() -> None:
    with collecting() as collector:
        done = run_engine(
            "trace", LOG, "--otlp", collector.url, "--follow",
            OTEL_EXPORTER_OTLP_HEADERS="x-key=sk-collector",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sent = [
        (scope.scope.name, span)
        for request in collector.got
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {name for name, _ in sent} == {"stark-engine"}
    spans = [span for _, span in sent]
    assert f"{len(spans)} spans of run" in done.stderr
    assert len({span.trace_id for span in spans}) == 1
    (root,) = [span for span in spans if not span.parent_span_id]
    attributes = {a.key: a.value for a in root.attributes}
    assert attributes["stark.canned"].bool_value, "labelled as what it is"
    chats = [span for span in spans if span.kind == span.SPAN_KIND_CLIENT]
    assert len(chats) > 5
    keys = {a.key for a in chats[0].attributes}
    assert keys >= {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}
    assert collector.headers[0]["x-key"] == "sk-collector"
    assert "sk-collector" not in done.stdout + done.stderr


def test_a_collector_that_takes_nothing_is_named() -> None:
    with collecting(status=400) as collector:
        done = run_engine("trace", LOG, "--otlp", collector.url)
    assert done.returncode == 3
    assert done.stderr == (
        f"engine: {collector.url} did not take the spans: is a collector listening there?\n"
    )
