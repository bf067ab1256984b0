"""The workloads with their sizes and number of rounds.

The default is seven rounds. If a peer needs minutes per round, there are fewer, so that a full run takes 45 minutes on
two cores. The results include the number of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The scale of a workload and its number of rounds."""

    scale: float
    rounds: int = 7


@dataclass(frozen=True)
class Step:
    """One workload of the plan.

    Attributes:
        name: The number of the workload.
        module: The module with its arms, in ``benchmarks.workloads``.
        full: The size in a full run.
        quick: The size in a quick run; None skips the workload.
        variant: The variant of the workload, such as the engine.
        warm_up: Whether to run a warm-up round first, which is not counted.
    """

    name: str
    module: str
    full: Size
    quick: Size | None
    variant: str = ""
    warm_up: bool = True


PLAN = (
    Step("p1", "p1_bulk_append", Size(1), Size(1, 3)),
    Step("p1", "p1_bulk_append", Size(6), None),
    Step("p2", "p2_partitioned_append", Size(1, 5), Size(0.25, 1)),
    Step("p3", "p3_small_appends", Size(1, 5), Size(0.5, 1)),
    # Every round starts new processes, so a warm-up has no effect.
    Step("p4", "p4_many_writers", Size(1, 3), Size(0.25, 1), warm_up=False),
    Step("p5", "p5_upsert", Size(0.01), None),
    Step("p5", "p5_upsert", Size(1, 3), Size(0.1, 1)),
    Step("p5", "p5_upsert", Size(10), None),
    # The metric is peak memory, which one stream is enough to measure.
    Step("p6", "p6_stream", Size(1, 1), Size(0.1, 1), warm_up=False),
    Step("p7", "p7_scan", Size(1), Size(0.25, 1)),
    Step("p8", "p8_maintenance", Size(1), Size(0.25, 1)),
    Step("p9", "p9_materialization", Size(1), Size(0.5, 2)),
    Step("p10", "p10_commands", Size(1), Size(1, 2)),
    Step("p11", "p11_pipeline", Size(0.25, 3), Size(0.02, 1), variant="local"),
    Step("p11", "p11_pipeline", Size(0.25, 3), None, variant="cluster"),
    Step("p11", "p11_pipeline", Size(0.25, 3), None, variant="connect"),
    Step("p12", "p12_tenants", Size(1, 3), Size(0.2, 1)),
    Step("sc2", "metadata_operations", Size(1), Size(0.5, 1), variant="embedded"),
    Step("sc2", "metadata_operations", Size(1), Size(0.5, 1), variant="rest"),
)
