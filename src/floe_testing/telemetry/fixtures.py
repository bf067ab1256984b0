"""Fixtures that collect floe's spans and metrics in memory.

Enable them in a test module with ``pytest_plugins = ["floe_testing.telemetry.fixtures"]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from floe_core.observing import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Tracer

    Tracing = tuple[Tracer, InMemorySpanExporter]
    Figures = Callable[[str], dict[tuple[object, ...], float]]


@pytest.fixture
def tracing() -> Tracing:
    """Provide a tracer and the exporter that receives its spans."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


@pytest.fixture
def spans(tracing: Tracing) -> Callable[[], Sequence[ReadableSpan]]:
    """Provide a function that returns the finished spans."""
    return tracing[1].get_finished_spans


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Figures:
    """Provide a function that returns a metric's values, or a histogram's counts, by attribute values."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    instruments = metrics.instruments_of(MeterProvider([reader]).get_meter("test"))
    monkeypatch.setattr(metrics, "_instruments", lambda: instruments)

    def read(name: str) -> dict[tuple[object, ...], float]:
        data = reader.get_metrics_data()
        return {
            tuple((point.attributes or {}).values()): point.value if hasattr(point, "value") else point.count
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }

    return read
