"""``engine trace``: a log as OpenTelemetry spans, to a collector; also while it is written."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from engine.cli.address import log_errors, open_run
from engine.cli.exits import Exit, Failure
from engine.cli.inspect.tail import followed
from projections.export.spans import Span, Spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["trace"]

_MOST_AT_ONCE = 512


@click.command()
@click.argument("log")
@click.option("--otlp", metavar="URL", required=True, envvar="ENGINE_TRACE_OTLP",
              help="A collector's, such as http://127.0.0.1:4318/v1/traces.")  # fmt: skip
@click.option("-f", "--follow", is_flag=True,
              help="Go on with what comes, until the log has no writer.")  # fmt: skip
def trace(log: str, otlp: str, follow: bool) -> None:
    """Send the run in LOG as spans: the run, its attempts, model calls and evaluations.

    Names follow the conventions for generative AI. Prompts, replies and sources are not sent. A
    collector that wants a key gets it from OTEL_EXPORTER_OTLP_HEADERS.
    """
    exporter, count = _exporter(otlp), 0
    with log_errors(), open_run(log) as opened:
        spans = Spans(opened.run.uid)
        for event in followed(opened.reader, 0, opened.run.run_id, follow=follow):
            count += _send(exporter, list(spans.apply(event)), otlp)
        count += _send(exporter, list(spans.rest()), otlp)
    exporter.shutdown()
    click.echo(f"{count} spans of run {opened.run.uid} sent to {otlp}", err=True)


def _exporter(url: str) -> SpanExporter:
    if not url.startswith(("http://", "https://")):
        raise Failure(f"--otlp {url}: must be http(s)://HOST[:PORT]/v1/traces")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise Failure(
            f"engine trace needs OpenTelemetry ({error}): pip install 'stark-engine[otel]'",
            Exit.MISSING,
        ) from error
    # What it has to say is said below, once.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return OTLPSpanExporter(endpoint=url, timeout=5)


def _send(exporter: SpanExporter, spans: Sequence[Span], url: str) -> int:
    from opentelemetry.sdk.trace.export import SpanExportResult

    rest = iter([_readable(span) for span in spans])
    while batch := list(islice(rest, _MOST_AT_ONCE)):
        if exporter.export(batch) is not SpanExportResult.SUCCESS:
            raise Failure(f"{url} did not take the spans: is a collector listening there?",
                          Exit.MISSING)  # fmt: skip
    return len(spans)


def _readable(span: Span) -> ReadableSpan:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: int) -> SpanContext:
        return SpanContext(span.trace, span_id, False, TraceFlags(TraceFlags.SAMPLED))

    attributes: dict[str, Any] = dict(span.attributes)
    return ReadableSpan(
        name=span.name,
        context=context(span.id),
        parent=None if span.parent is None else context(span.parent),
        resource=Resource({"service.name": "stark-engine"}),
        attributes=attributes,
        kind=SpanKind.CLIENT if span.client else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.start_us * 1000,
        end_time=span.end_us * 1000,
        instrumentation_scope=InstrumentationScope(
            "stark-engine", schema_url="https://opentelemetry.io/schemas/1.41.0"
        ),
    )
