"""The command behind ``make torture``."""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import time
from pathlib import Path

from tests.torture.run import ROOT, Plan, Torture, clean, remove

_OPERATIONS_PER_COMMIT = 1.4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="repeat the operations and faults of a run")
    parser.add_argument("--commits", type=int, default=10_000, help="approximate number of commits")
    parser.add_argument(
        "--spark", type=int, default=120, help="operations on Spark, and the same number concurrent with them"
    )
    parser.add_argument("--rest", type=float, default=0.3, help="share of operations over REST")
    parser.add_argument("--faults", type=float, default=0.3, help="share of operations with a fault")
    parser.add_argument("--minutes", type=float, default=None, help="stop after this time")
    parser.add_argument(
        "--soak", type=float, default=None, help="run for this many minutes with few faults, to detect growth"
    )
    parser.add_argument("--out", type=Path, default=ROOT / ".floe-dev" / "torture.json", help="result file")
    parser.add_argument("--keep", action="store_true", help="keep the folder with ledgers, logs and tables")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    plan = (
        Plan.soak(seed, given.soak)
        if given.soak
        else Plan(
            seed, round(given.commits * _OPERATIONS_PER_COMMIT), given.rest, given.spark, given.faults, given.minutes
        )
    )
    folder = ROOT / ".floe-dev" / "torture" / f"{seed}-{time.time_ns() // 1_000_000}"
    folder.mkdir(parents=True)
    sys.stdout.write(f"seed {seed}, folder {folder}\n")
    sys.stdout.flush()
    # If the run is terminated, it still ends its processes and deletes its files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = Torture(plan, folder).run()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    shown = {key: value for key, value in result.items() if key != "arenas"}
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    good = clean(result)
    sys.stdout.write(f"{'clean' if good else 'BREACHES'}: {given.out}\n")
    if good and not given.keep:
        remove(folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
