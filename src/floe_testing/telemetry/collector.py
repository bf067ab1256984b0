"""A local telemetry receiver for OTLP over HTTP and OpenLineage events."""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_FAILED = 2


@dataclass(frozen=True)
class ReceivedSpan:
    """A received span."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    attributes: dict[str, Any]
    error: str | None
    start: int
    end: int
    process: int


@dataclass(frozen=True)
class ReceivedPoint:
    """A received data point of a metric: a sum, a gauge, or a histogram's count."""

    value: float
    attributes: dict[str, Any]
    process: int


class Collector:
    """Receives telemetry on a free loopback port during a block.

    Attributes:
        spans: Spans in order of arrival.
        points: The latest data points of a metric, with attributes.
        lineage: OpenLineage events in order of arrival.
        problems: Requests that could not be parsed; tests should find none.
    """

    def __init__(self) -> None:
        """Bind a free port."""
        self.spans: list[ReceivedSpan] = []
        self.lineage: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._points: dict[tuple[str, str, str], ReceivedPoint] = {}
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="floe-collector", daemon=True
        )

    @property
    def url(self) -> str:
        """Address of the receiver."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Start the receiver."""
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop the receiver."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def points(self, name: str) -> list[ReceivedPoint]:
        """Return the latest data points of a metric from every process."""
        with self._lock:
            return [point for (metric, _, _), point in self._points.items() if metric == name]

    def take(self, path: str, body: bytes) -> bytes:
        """Process a request and return the response body."""
        with self._lock:
            if path == "/v1/traces":
                request = ExportTraceServiceRequest.FromString(body)
                self.spans += _spans(request)
                return bytes(ExportTraceServiceResponse().SerializeToString())
            if path == "/v1/metrics":
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))
                return bytes(ExportMetricsServiceResponse().SerializeToString())
            if path == "/api/v1/lineage":
                self.lineage.append(json.loads(body))
                return b""
            msg = f"unknown path {path}"
            raise LookupError(msg)

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            instance = _attributes(resource.resource.attributes)
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for attributes, value in _figures(metric):
                    key = (metric.name, json.dumps(attributes, sort_keys=True), str(instance["service.instance.id"]))
                    self._points[key] = ReceivedPoint(value, attributes, int(instance["process.pid"]))


@dataclass
class TraceTree:
    """The spans of one trace as a tree."""

    spans: list[ReceivedSpan]
    by_id: dict[str, ReceivedSpan] = field(init=False)

    def __post_init__(self) -> None:
        """Index the spans."""
        self.by_id = {span.span_id: span for span in self.spans}

    @property
    def roots(self) -> list[ReceivedSpan]:
        """Spans without a parent."""
        return [span for span in self.spans if span.parent_id is None]

    @property
    def orphans(self) -> list[ReceivedSpan]:
        """Spans whose parent was not received."""
        return [span for span in self.spans if span.parent_id is not None and span.parent_id not in self.by_id]

    def named(self, *names: str) -> list[ReceivedSpan]:
        """Return the spans with the given names."""
        return [span for span in self.spans if span.name in names]

    @property
    def assets(self) -> list[tuple[str, str | None]]:
        """Asset and partition of every asset span, sorted."""
        found = [span.attributes for span in self.named("dagster.asset")]
        return sorted((had["dagster.asset"], had.get("dagster.partition")) for had in found)

    @property
    def commits(self) -> list[tuple[str, int]]:
        """Table and snapshot id of every committed snapshot, sorted; Spark commits as part of its write.

        Commits that lost to another writer are not included.
        """
        found = [span for span in self.named("iceberg.commit_table", "iceberg.engine_write") if span.error is None]
        return sorted(
            (span.attributes["iceberg.table"], span.attributes["iceberg.snapshot_id"])
            for span in found
            if "iceberg.snapshot_id" in span.attributes
        )

    def path(self, span: ReceivedSpan) -> list[str]:
        """Return the span names from the root to a span."""
        names = [span.name]
        while span.parent_id is not None and span.parent_id in self.by_id:
            span = self.by_id[span.parent_id]
            names.insert(0, span.name)
        return names


def whole_trace(collector: Collector, *, root: str) -> TraceTree:
    """Return the only received trace, after checking that it has one root and no missing parents."""
    assert collector.problems == []
    tree = TraceTree(collector.spans)
    assert [span.name for span in tree.roots] == [root]
    assert tree.orphans == []
    assert len({span.trace_id for span in tree.spans}) == 1
    assert len(tree.by_id) == len(tree.spans)
    return tree


class _Handler(BaseHTTPRequestHandler):
    collector: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            answer, status = self.collector.take(self.path, body), 200
        except Exception as err:  # noqa: BLE001 - tests inspect requests that could not be parsed
            self.collector.problems.append(f"{self.path}: {type(err).__name__}: {err}")
            answer, status = b"", 400
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


def _spans(request: ExportTraceServiceRequest) -> Iterable[ReceivedSpan]:
    for resource in request.resource_spans:
        process = int(_attributes(resource.resource.attributes)["process.pid"])
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield ReceivedSpan(
                name=span.name,
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex() or None,
                attributes=_attributes(span.attributes),
                error=span.status.message if span.status.code == _FAILED else None,
                start=span.start_time_unix_nano,
                end=span.end_time_unix_nano,
                process=process,
            )


def _figures(metric: Any) -> Iterable[tuple[dict[str, Any], float]]:
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        if kind == "histogram":
            yield _attributes(point.attributes), point.count
        else:
            yield _attributes(point.attributes), getattr(point, point.WhichOneof("value"))


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
