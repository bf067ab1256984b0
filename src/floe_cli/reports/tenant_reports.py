"""The reports of ``floe tenants``: bootstrap, verification and off-boarding."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from floe_cli.output import Report, count, fields, grid, mark, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from floe_tenancy import FleetReport, LayoutReport, OffboardingPlan, OffboardingResult, TenantAccess

STATES = {"done": "ok", "skipped": "skipped", "failed": "failed"}


def fleet_report(
    report: FleetReport,
    access: Mapping[str, TenantAccess],
    failed: Mapping[str, str],
    *,
    secrets_printed: bool,
    credentials_file: str | None,
) -> Report:
    """Report a bootstrap.

    Args:
        report: Outcome per tenant.
        access: The access granted with ``--isolate``, by tenant.
        failed: Why access was not granted, by tenant.
        secrets_printed: Whether the secrets were already printed.
        credentials_file: File that the secrets were written to.
    """
    data, rows = [], []
    for one in report.outcomes:
        state = "failed" if one.tenant in failed else one.state.value
        given = access.get(one.tenant)
        notes = [one.detail, *([failed[one.tenant]] if one.tenant in failed else _notes(given))]
        data.append(
            {
                "tenant": one.tenant,
                "state": state,
                "detail": "; ".join(notes),
                **_access_data(given, credentials_file=credentials_file),
            }
        )
        rows.append((one.tenant, mark(STATES[state]), "; ".join(notes)))
    text: list[Any] = [grid(["TENANT", "STATE", ""], rows)]
    if len(rows) > 1:
        totals = Counter(line["state"] for line in data)
        text += ["", f"{totals['done']:,} created, {totals['skipped']:,} already exist, {totals['failed']:,} failed."]
    new = [one for one in access.values() if one.is_new]
    if new and credentials_file:
        text += ["", f"Wrote {count(len(new), 'secret')} to {credentials_file}."]
    elif new and secrets_printed:
        text += ["", "These secrets will not be shown again."]
    return Report(data=data, text=text, exit_code=0 if report.ok and not failed else 1)


def _notes(access: TenantAccess | None) -> list[str]:
    if access is None:
        return []
    notes = [] if access.is_new else ["already has credentials; pass --rotate to replace them"]
    return [*notes, *([f"revoked {', '.join(access.revoked)}"] if access.revoked else [])]


def _access_data(access: TenantAccess | None, *, credentials_file: str | None) -> dict[str, Any]:
    if access is None:
        return {}
    secret = access.client_secret.get_secret_value() if access.client_secret and not credentials_file else None
    where = {"credentials_file": credentials_file} if credentials_file and access.is_new else {}
    return {
        "principal": access.principal,
        "client_id": access.client_id,
        "client_secret": secret,
        "revoked": list(access.revoked),
        **where,
    }


def verified_report(reports: Sequence[LayoutReport]) -> Report:
    """Report a verification."""
    data = [
        {
            "tenant": report.tenant,
            "ok": report.ok,
            "checks": [{"name": c.name, "state": c.state.value, "detail": c.detail} for c in report.checks],
        }
        for report in reports
    ]
    return Report(data=data, text=_verified_text(reports), exit_code=0 if all(report.ok for report in reports) else 1)


def _verified_text(reports: Sequence[LayoutReport]) -> list[Any]:
    """Show all checks for one tenant; for several, the failed checks and a summary."""
    if not reports:
        return ["No tenants yet. Create one with: floe tenants bootstrap ID"]
    headers = ["TENANT", "CHECK", "", "DETAIL"]
    if len(reports) == 1:
        [one] = reports
        return [grid(headers, [(one.tenant, c.name, mark(c.state.value), c.detail) for c in one.checks])]
    good = [report for report in reports if report.ok]
    rows: list[tuple[Any, ...]] = [(one.tenant, "all", mark("ok"), count(len(one.checks), "check")) for one in good]
    rows += [
        (one.tenant, check.name, mark(check.state.value), check.detail)
        for one in reports
        for check in one.checks
        if not one.ok and check.state.value == "failed"
    ]
    return [grid(headers, rows), "", f"{len(good):,} of {count(len(reports), 'tenant')} passed."]


def plan_report(plan: OffboardingPlan, export: str | None) -> Report:
    """Report an off-boarding plan."""
    data = plan_data(plan) | {"removed": False}
    return Report(data=data, text=_plan_text(plan, export), exit_code=1 if plan.is_blocked else 0)


def plan_data(plan: OffboardingPlan) -> dict[str, Any]:
    """Return an off-boarding plan as JSON data."""
    return {
        "tenant": plan.tenant,
        "namespaces": list(plan.namespaces),
        "tables": {table.name: table.rows for table in plan.tables},
        "broken_tables": {table.name: table.broken for table in plan.broken},
        "other_contents": {content.name: content.kind.value for content in plan.contents},
        "objects": plan.objects,
        "bytes": plan.bytes,
        "left_behind": list(plan.outside),
        "legal_holds": list(plan.holds),
        "tables_of_others": list(plan.intruders),
        "unreadable_tables_of_others": list(plan.unreadable),
        "shared_tables": list(plan.sharing),
        "has_credentials": plan.has_access,
    }


def _plan_text(plan: OffboardingPlan, export: str | None) -> list[Any]:
    if plan.is_empty:
        return [f"Tenant {plan.tenant} does not exist: nothing to remove."]
    pairs = [
        ("Export", export or "none"),
        ("Credentials", "would be revoked" if plan.has_access else ""),
        ("Namespaces", ", ".join(plan.namespaces)),
        ("Objects", f"{plan.objects:,}, {size(plan.bytes)}"),
        ("Left behind", ", ".join(plan.outside)),
        ("Legal hold", "; ".join(plan.holds)),
        ("Foreign tables", ", ".join(plan.intruders)),
        ("Shared files", ", ".join(plan.sharing)),
        ("Unreadable tables", ", ".join(plan.unreadable)),
    ]
    rows = [(table.name, "broken" if table.broken else f"{table.rows:,}") for table in plan.tables]
    rows += [(content.name, content.kind.value) for content in plan.contents]
    closing = (
        "Off-boarding would be refused."
        if plan.is_blocked
        else "Nothing was changed. To remove the tenant, run the command again without --dry-run."
    )
    return [
        f"Would remove tenant {plan.tenant}:",
        fields(pairs),
        "",
        grid(["TABLE", "ROWS"], rows, right=["ROWS"]),
        "",
        closing,
    ]


def offboarded_report(result: OffboardingResult) -> Report:
    """Report an off-boarding."""
    pending = result.list_again_after
    data = plan_data(result.plan) | {
        "removed": pending is None,
        "list_again_after": pending.isoformat() if pending else None,
        "exported_rows": result.exported,
        "not_exported": result.not_exported,
        "deleted_objects": result.deleted_objects,
        "journal": str(result.journal),
        "resumed": result.resumed,
    }
    return Report(data=data, text=_result_text(result))


def _result_text(result: OffboardingResult) -> list[Any]:
    tenant = result.plan.tenant
    pairs = [
        ("Exported", ", ".join(f"{name} ({rows:,} rows)" for name, rows in result.exported.items())),
        ("Not exported", "; ".join(f"{name}: {why}" for name, why in result.not_exported.items())),
        ("Dropped", ", ".join([*(t.name for t in result.plan.tables), *(c.name for c in result.plan.contents)])),
        ("Deleted", count(result.deleted_objects, "object")),
        ("Left behind", ", ".join(result.plan.outside)),
        ("Journal", result.journal),
    ]
    resumed = ["Resumed an interrupted off-boarding."] if result.resumed else []
    if result.list_again_after is None:
        return [*resumed, f"Removed tenant {tenant}; no files are left.", fields(pairs)]
    moment = result.list_again_after.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return [
        *resumed,
        f"Removed tenant {tenant}. Storage credentials vended to it earlier are valid until {moment}.",
        "Run the same command again after that to delete files written with them and to complete the off-boarding.",
        fields(pairs),
    ]
