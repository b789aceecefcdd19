"""The benchmark of explanations runs, on a small cluster."""

from __future__ import annotations

from tests.bench import bench_explain


def test_every_claim_of_the_benchmark_is_explained() -> None:
    figures = {figure.name: figure for figure in bench_explain.measure(nodes=12, repeats=1)}

    assert set(figures) == {"explain-p50", "explain-p95", "explain-searches"}
    assert figures["explain-p95"].allowed == bench_explain.ALLOWED_MS
