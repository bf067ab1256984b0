"""python -m benchmarks [--quick] [--only p1,p3]: measure and report."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.data import lineitem_file
from benchmarks.harness import measure

RESULTS = Path(__file__).resolve().parent / "results"

# name, module, scale and rounds of the full run, scale and rounds of the quick one (0 rounds: left out)
PLAN = [
    ("p1", "p1_bulk_append", 1, 7, 1, 3),
    ("p1", "p1_bulk_append", 6, 7, 0, 0),
    ("p2", "p2_partitioned_append", 1, 7, 0.25, 3),
    ("p3", "p3_small_appends", 1, 7, 1, 1),
    ("p4", "p4_many_writers", 1, 7, 1, 1),
    ("p5", "p5_upsert", 0.01, 7, 0, 0),
    ("p5", "p5_upsert", 1, 7, 1, 1),
    ("p5", "p5_upsert", 10, 7, 0, 0),
    ("p6", "p6_stream", 1, 1, 0.1, 1),
    ("p7", "p7_scan", 1, 7, 0.25, 1),
    ("p8", "p8_maintenance", 1, 7, 0.5, 1),
    ("p12", "p12_tenants", 1, 3, 0.2, 1),
]


def main() -> int:
    """Run the plan; the exit code tells whether every answer was right, not whether every goal was reached."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="five minutes instead of forty-five")
    parser.add_argument("--only", default="", help="workloads, such as p1,p3")
    arguments = parser.parse_args()
    only = {name for name in arguments.only.split(",") if name}
    lineitem_file()
    results = []
    for name, module, full_scale, full_rounds, quick_scale, quick_rounds in PLAN:
        scale, rounds = (quick_scale, quick_rounds) if arguments.quick else (full_scale, full_rounds)
        if not rounds or (only and name not in only):
            continue
        path = f"benchmarks.workloads.{module}"
        print(f"{name} x{scale:g}, {rounds} rounds …", flush=True)
        warm_up = rounds > 1 or module != "p6_stream"
        measurements = measure(path, scale=scale, rounds=rounds, warm_up=warm_up)
        result = report.judge(name, importlib.import_module(path), scale, measurements)
        for measurement in measurements:
            if measurement.error:
                print(f"  {measurement.arm}: {measurement.error}", flush=True)
        results.append(result)
    report.write(results, RESULTS)
    print(report.markdown(results))
    return 0 if all(result.correct for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
