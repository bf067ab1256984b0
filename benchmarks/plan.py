"""What is measured, how large and how often.

Seven rounds are the rule. Where a peer takes minutes a round there are fewer, so that the full run ends within 45
minutes on two cores; the results name the rounds of each workload.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How much of a workload is done, and how often."""

    scale: float
    rounds: int = 7


@dataclass(frozen=True)
class Step:
    """One workload of the plan.

    Attributes:
        name: Its number.
        module: Where its arms are, below ``benchmarks.workloads``.
        full: Its size in the full run.
        quick: Its size in the quick one, None to leave it out there.
        variant: Which of the module's variants, such as the engine.
        warm_up: Whether a first round is run that does not count.
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
    # Every round starts its sixteen processes anew, so that there is nothing to warm up.
    Step("p4", "p4_many_writers", Size(1, 3), Size(0.25, 1), warm_up=False),
    Step("p5", "p5_upsert", Size(0.01), None),
    Step("p5", "p5_upsert", Size(1, 3), Size(0.1, 1)),
    Step("p5", "p5_upsert", Size(10), None),
    # Memory is the question, and a second stream would not answer it better.
    Step("p6", "p6_stream", Size(1, 1), Size(0.1, 1), warm_up=False),
    Step("p7", "p7_scan", Size(1), Size(0.25, 1)),
    Step("p8", "p8_maintenance", Size(1), Size(0.25, 1)),
    Step("p9", "p9_materialisation", Size(1), Size(0.5, 2)),
    Step("p10", "p10_commands", Size(1), Size(1, 2)),
    Step("p11", "p11_pipeline", Size(0.25, 3), Size(0.02, 1), variant="local"),
    Step("p11", "p11_pipeline", Size(0.25, 3), None, variant="cluster"),
    Step("p11", "p11_pipeline", Size(0.25, 3), None, variant="connect"),
    Step("p12", "p12_tenants", Size(1, 3), Size(0.2, 1)),
    Step("sc2", "metadata_operations", Size(1), Size(0.5, 1), variant="embedded"),
    Step("sc2", "metadata_operations", Size(1), Size(0.5, 1), variant="rest"),
)
