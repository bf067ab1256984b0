"""Runs the benchmarks and reports the results: python -m benchmarks [--quick] [--only p1,p3]."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from benchmarks import report
from benchmarks.data import lineitem_file
from benchmarks.harness import measure
from benchmarks.judging import judge
from benchmarks.plan import PLAN, Step


def main() -> int:
    """Run the plan; the exit code depends on the correctness of the results, not on whether they meet their goals."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="take five minutes instead of 45")
    parser.add_argument("--only", default="", help="workloads to run, such as p1,p11 or p11/connect")
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    steps = chosen(arguments.only)
    lineitem_file()
    results = []
    for step in steps:
        size = step.quick if arguments.quick else step.full
        if size is None:
            continue
        what = "/".join(part for part in (step.name, step.variant) if part)
        print(f"{what} x{size.scale:g}, {size.rounds} rounds …", flush=True)
        started = time.monotonic()
        path = f"benchmarks.workloads.{step.module}"
        measurements = measure(path, scale=size.scale, rounds=size.rounds, variant=step.variant, warm_up=step.warm_up)
        results.append(judge(step, size, importlib.import_module(path), measurements))
        for measurement in measurements:
            if measurement.error:
                print(f"  {measurement.arm}: {measurement.error}", flush=True)
            if measurement.audited:
                print(f"  {measurement.audited} tables audited, {len(measurement.breaches)} breaches", flush=True)
                print(*measurement.breaches[:5], sep="\n", end="", flush=True)
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
    report.write(results, arguments.results, quick=arguments.quick, whole=not arguments.only)
    print(report.markdown(results))
    return 0 if all(result["correct"] for result in results) else 1


def chosen(only: str) -> list[Step]:
    """Return the selected steps, or all steps if the selection is empty."""
    wanted = {name.strip().lower() for name in only.split(",") if name.strip()}
    names = {step.name for step in PLAN} | {f"{step.name}/{step.variant}" for step in PLAN if step.variant}
    if unknown := wanted - names:
        sys.exit(f"Unknown workloads: {', '.join(sorted(unknown))}. Valid workloads: {', '.join(sorted(names))}.")
    return [step for step in PLAN if not wanted or wanted & {step.name, f"{step.name}/{step.variant}"}]


if __name__ == "__main__":
    sys.exit(main())
