"""Check the partition summaries in manifest lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_audit.spec.rules import Rule
from floe_audit.spec.schemas import MalformedError
from floe_audit.spec.values import decode, is_nan, order, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_audit.manifests.manifest_files import Manifest
    from floe_audit.manifests.manifest_lists import Listed, Summary
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings
    from floe_audit.spec.schemas import Type


def check_summaries(where: str, line: Listed, manifest: Manifest, metadata: TableMetadata, findings: Findings) -> None:
    """Recompute the summary of each partition field from the manifest entries."""
    spec = metadata.specs.get(line.spec_id)
    if spec is None or line.summaries is None:
        return
    what = f"Manifest {line.path} does not have one summary per partition field"
    if not findings.check(
        len(line.summaries) == len(spec.fields),
        Rule.LIST_SUMMARIES,
        what,
        file=where,
        expected=len(spec.fields),
        found=len(line.summaries),
    ):
        return
    kinds = metadata.partition_types(spec)
    everything = [one.file.partition for one in manifest.entries]
    # Scans only need the live entries covered, but some writers include deleted entries too.
    live = [one.file.partition for one in manifest.entries if one.live]
    for place, (part, kind, summary) in enumerate(zip(spec.fields, kinds, line.summaries, strict=True)):
        if kind is None or any(len(one) != len(spec.fields) for one in everything):
            continue
        name = f"partition field {part.name!r} of manifest {line.path}"
        try:
            stated = _decoded(kind, summary)
        except MalformedError as err:
            findings.breach(Rule.LIST_SUMMARIES, f"A bound of {name} is malformed: {err}", file=where)
            continue
        # The specification does not define an order for UUIDs; Java compares them as two signed longs.
        orders = (order, _signed) if kind.name == "uuid" else (order,)
        accepted = [
            _summarized(kind, [one[place] for one in values], key) for values in (everything, live) for key in orders
        ]
        findings.check(
            any(_agree(stated, one) for one in accepted),
            Rule.LIST_SUMMARIES,
            f"The summary of {name} is wrong",
            file=where,
            expected=_shown(accepted[0]),
            found=_shown(stated),
        )


def _decoded(kind: Type, summary: Summary) -> tuple[Any, ...]:
    lower = None if summary.lower is None else decode(kind, summary.lower)
    upper = None if summary.upper is None else decode(kind, summary.upper)
    return summary.contains_null, summary.contains_nan, lower, upper


def _signed(value: bytes) -> tuple[int, int]:
    return int.from_bytes(value[:8], "big", signed=True), int.from_bytes(value[8:], "big", signed=True)


def _summarized(kind: Type, values: list[Any], key: Callable[[Any], Any]) -> tuple[Any, ...]:
    plain = sorted({one for one in values if one is not None and not is_nan(one)}, key=key)
    # -0.0 and 0.0 are equal in Python, but differ as bounds.
    zeros = sorted((one for one in values if kind.floating and one == 0), key=order)
    lower, upper = (plain[0], plain[-1]) if plain else (None, None)
    if zeros and lower == 0:
        lower = zeros[0]
    if zeros and upper == 0:
        upper = zeros[-1]
    return None in values, any(is_nan(one) for one in values), lower, upper


def _agree(stated: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    nan = stated[1] is None or stated[1] == expected[1]
    return stated[0] == expected[0] and nan and same(stated[2], expected[2]) and same(stated[3], expected[3])


def _shown(summary: tuple[Any, ...]) -> str:
    names = ("null", "nan", "lower", "upper")
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, summary, strict=True))
