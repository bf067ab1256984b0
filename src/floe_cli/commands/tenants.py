"""``floe tenants``."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, command_group
from floe_cli.output import Report, count, fields, grid, mark, progress, size, working
from floe_cli.workspace import Workspace
from floe_core.errors import CapabilityError, ConfigurationError, NamespaceNotFoundError

if TYPE_CHECKING:
    from floe_tenancy import (
        BootstrapSession,
        FleetReport,
        IcebergCatalogBootstrapper,
        IcebergCatalogConfig,
        LayoutReport,
        OffboardingPlan,
        OffboardingResult,
        PolarisIsolation,
        TenantAccess,
    )

app = command_group("Tenants: isolated catalogs, from bootstrap to off-boarding.")

TenantArgument = Annotated[str, typer.Argument(metavar="ID", help="Tenant id: letters, digits, - and _.")]
TenantsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Tenant ids.", show_default=False)]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="Read ids from a file, one a line.", show_default=False),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Tenants at once; default: tenancy.concurrency.", show_default=False),
]
_JOURNALS = Path(".floe/offboarding")
_STATES = {"done": "ok", "skipped": "skipped", "failed": "failed"}


class _Tenants:
    """A project's tenants, open for the length of a command."""

    def __init__(self, workspace: Workspace, connection: Any) -> None:  # noqa: ANN401 - an open project
        from floe_tenancy import project_bootstrapper, tenancy_config, tenant_table_specs

        self.artifacts = workspace.artifacts
        self.connection = connection
        self.config: IcebergCatalogConfig = tenancy_config(connection)
        self.bootstrapper: IcebergCatalogBootstrapper = project_bootstrapper(connection)
        self.specs = tenant_table_specs(self.artifacts)

    def isolation(self) -> "PolarisIsolation | None":
        from floe_tenancy import project_isolation

        return project_isolation(self.connection)


@contextmanager
def _opened(workspace: Workspace) -> Iterator[_Tenants]:
    with workspace.connection() as connection:
        yield _Tenants(workspace, connection)


@command(app)
def bootstrap(
    workspace: Workspace,
    tenants: TenantsArgument = None,
    file: FileOption = None,
    concurrency: ConcurrencyOption = None,
    *,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="On Polaris: give each tenant credentials, told this once.")
    ] = False,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="With --isolate: new credentials for those who have some.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Report:
    """Make tenants' prefixes, namespaces and tables.

    What is there already is left as it is, so the command can be repeated.

    Examples:
        floe tenants bootstrap acme globex
        floe tenants bootstrap --file tenants.txt --concurrency 16 --yes
    """
    ids = _ids(tenants, file)
    if rotate and not isolate:
        msg = "--rotate replaces credentials, and --isolate is what gives them."
        raise ConfigurationError(msg, hint="Add --isolate.")
    if rotate:
        workspace.confirm_in_environment(f"End the present credentials of {count(len(ids), 'tenant')}?", yes=yes)
    from floe_tenancy import TenantState, bootstrap_many

    with _opened(workspace) as opened, progress("Bootstrapping", len(ids)) as advance:
        isolation = _required(opened.isolation()) if isolate else None
        report = bootstrap_many(
            opened.bootstrapper,
            ids,
            opened.config,
            opened.specs,
            concurrency=concurrency or opened.artifacts.tenancy.concurrency,
            on_progress=lambda _: advance(),
        )
        made = [outcome.tenant for outcome in report.outcomes if outcome.state is not TenantState.FAILED]
        access = {tenant: isolation.grant(tenant, rotate=rotate) for tenant in made} if isolation else {}
    return _fleet_report(report, access)


@command(app, "list")
def list_tenants(workspace: Workspace) -> Report:
    """List the tenants.

    Examples:
        floe tenants list
    """
    with working("Reading the catalog"), _opened(workspace) as opened, opened.bootstrapper.session(opened.config) as s:
        found = s.tenants()
    return Report(data=found, text=found or ["No tenants yet. Make one with: floe tenants bootstrap ID"])


@command(app)
def show(workspace: Workspace, tenant: TenantArgument) -> Report:
    """Show a tenant's namespace, warehouse, markers and tables.

    Examples:
        floe tenants show acme
    """
    _ids([tenant], None)
    with working("Reading the catalog"), _opened(workspace) as opened, opened.bootstrapper.session(opened.config) as s:
        data = _described(s, tenant)
    rows = [(table["name"], f"{table['rows']:,}", table["location"]) for table in data["tables"]]
    pairs = [
        ("Tenant", tenant),
        ("Namespace", data["namespace"]),
        ("Warehouse", data["warehouse_uri"]),
        ("Created", next((f"{m['created_at']} by {m['created_by']}" for m in data["markers"].values() if m), "")),
        ("Legal hold", data["legal_hold"]),
    ]
    return Report(data=data, text=[fields(pairs), "", grid(["TABLE", "ROWS", "LOCATION"], rows, right=["ROWS"])])


@command(app)
def evolve(
    workspace: Workspace,
    tenants: TenantsArgument = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this table of tenancy.tables.", show_default=False)
    ] = None,
    file: FileOption = None,
    concurrency: ConcurrencyOption = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
) -> Report:
    """Add new columns for all tenants, or those named.

    They are the columns that tenancy.tables declares and a tenant's table does not have yet.

    Examples:
        floe tenants evolve --dry-run  # all tenants, all tables
        floe tenants evolve acme --table bronze.orders
    """
    from floe_tenancy import evolve_all

    named = _ids(tenants, file) if tenants or file else None
    with _opened(workspace) as opened:
        specs = [spec for spec in opened.specs if table in (None, spec.name)]
        if not specs:
            msg = f"The tenants have no table '{table}'. Declared: {', '.join(s.name for s in opened.specs)}."
            raise ConfigurationError(msg)
        ids = _known(opened, named) if named else _everybody(opened)
        lines: list[dict[str, str]] = []
        with progress("Evolving", len(ids) * len(specs)) as advance:
            for spec in specs:
                report = evolve_all(
                    opened.bootstrapper,
                    spec,
                    opened.config,
                    ids,
                    concurrency=concurrency or opened.artifacts.tenancy.concurrency,
                    on_progress=lambda _: advance(),
                    dry_run=dry_run,
                )
                lines += [
                    {"tenant": o.tenant, "table": spec.name, "state": o.state.value, "detail": o.detail}
                    for o in report.outcomes
                ]
    rows = [
        (line["tenant"], line["table"], mark(_STATES[line["state"]]), line["detail"])
        for line in lines
        if line["state"] != "skipped"
    ]
    totals = Counter(line["state"] for line in lines)
    changed = f"{count(totals['done'], 'table')} {'would change' if dry_run else 'changed'}"
    summary = f"{changed}, {totals['skipped']:,} in step already, {totals['failed']:,} failed."
    text: list[Any] = [grid(["TENANT", "TABLE", "STATE", ""], rows), "", summary] if rows else [summary]
    return Report(data=lines, text=text, exit_code=1 if totals["failed"] else 0)


@command(app)
def verify(workspace: Workspace, tenants: TenantsArgument = None, file: FileOption = None) -> Report:
    """Prove the layout of all tenants, or those named.

    Namespace, location, markers and tables are there; every file below a tenant's prefix is its own, and no table of
    others lies there. On Polaris, its credentials have the privileges of a tenant: not one less, not one more.

    Examples:
        floe tenants verify
        floe tenants verify acme globex
    """
    from floe_tenancy import verify_tenants

    named = _ids(tenants, file) if tenants or file else None
    with _opened(workspace) as opened, opened.bootstrapper.session(opened.config) as session:
        ids = named or session.tenants()
        with progress("Verifying", len(ids)) as advance:
            reports = verify_tenants(
                session, ids, opened.specs, isolation=opened.isolation(), on_progress=lambda _: advance()
            )
    data = [
        {
            "tenant": report.tenant,
            "ok": report.ok,
            "checks": [{"name": c.name, "state": c.state.value, "detail": c.detail} for c in report.checks],
        }
        for report in reports
    ]
    return Report(data=data, text=_verified_text(reports), exit_code=0 if all(report.ok for report in reports) else 1)


def _verified_text(reports: "list[LayoutReport]") -> list[Any]:
    """Show every check of one tenant; of many, what is wrong, and who is in order."""
    if not reports:
        return ["No tenants yet. Make one with: floe tenants bootstrap ID"]
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
    return [grid(headers, rows), "", f"{len(good):,} of {count(len(reports), 'tenant')} in order."]


@command(app)
def offboard(
    workspace: Workspace,
    tenant: TenantArgument,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="DIR", help="Copy every table there first, as Parquet.", show_default=False),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Take the inventory, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Report:
    """Remove a tenant with all it has.

    Credentials end, tables and namespaces are dropped, and every file below its prefixes is deleted. A run that was
    interrupted is taken up by the next one. A legal hold (the property floe.legal-hold of the tenant's namespace or
    one of its tables) stops it.

    Examples:
        floe tenants offboard acme --dry-run
        floe tenants offboard acme --export backup/acme
    """
    _ids([tenant], None)
    from floe_tenancy import TenantOffboarding

    with _opened(workspace) as opened, opened.bootstrapper.session(opened.config) as session:
        offboarding = TenantOffboarding(
            session,
            journal_folder=opened.artifacts.project_root / _JOURNALS,
            isolation=opened.isolation(),
        )
        plan = offboarding.plan(tenant)
        if dry_run:
            data = _plan_data(plan) | {"removed": False}
            return Report(data=data, text=_plan_text(plan, export), exit_code=1 if plan.is_blocked else 0)
        plan.refuse_obstacles()
        what = f"{count(len(plan.tables), 'table')}, {count(plan.objects, 'object')}, {size(plan.bytes)}"
        workspace.confirm(f"Remove the tenant {tenant} with {what}? This cannot be undone.", yes=yes)
        with working("Off-boarding"):
            result = offboarding.run(tenant, export_to=export)
    return Report(data=_plan_data(result.plan) | _result_data(result), text=_result_text(result))


def _ids(tenants: list[str] | None, file: Path | None) -> list[str]:
    found = list(tenants or ())
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as err:
            msg = f"{file} cannot be read."
            raise ConfigurationError(msg, hint="Give a text file with one tenant id a line.") from err
        found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not found:
        msg = "No tenant is named."
        raise ConfigurationError(msg, hint="Give ids, or --file with one id a line.")
    from floe_tenancy import validate_tenant_id

    # All of them before the first one is touched.
    return [validate_tenant_id(tenant) for tenant in dict.fromkeys(found)]


def _known(opened: _Tenants, ids: list[str]) -> list[str]:
    if unknown := sorted(set(ids) - set(_everybody(opened))):
        msg = f"There is no tenant {', '.join(map(repr, unknown))}."
        raise NamespaceNotFoundError(msg, hint="floe tenants list shows who is there.")
    return ids


def _everybody(opened: _Tenants) -> list[str]:
    with opened.bootstrapper.session(opened.config) as session:
        return session.tenants()


def _required(isolation: "PolarisIsolation | None") -> "PolarisIsolation":
    if isolation is None:
        msg = "Only Polaris gives tenants credentials of their own."
        raise CapabilityError(msg, hint="Leave out --isolate, or use a catalog of type polaris.")
    return isolation


def _fleet_report(report: "FleetReport", access: "dict[str, TenantAccess]") -> Report:
    data = [
        {"tenant": o.tenant, "state": o.state.value, "detail": o.detail, **_told(access.get(o.tenant))}
        for o in report.outcomes
    ]
    rows = [(o.tenant, mark(_STATES[o.state.value]), o.detail) for o in report.outcomes]
    text: list[Any] = [grid(["TENANT", "STATE", ""], rows)]
    if len(rows) > 1:
        totals = Counter(outcome.state.value for outcome in report.outcomes)
        summary = f"{totals['done']:,} made, {totals['skipped']:,} there already, {totals['failed']:,} failed."
        text += ["", summary]
    told = [(tenant, one.client_id, _told(one)["client_secret"]) for tenant, one in access.items() if one.is_new]
    if told:
        text += ["", grid(["TENANT", "CLIENT ID", "CLIENT SECRET"], told), "", "These secrets are not shown again."]
    return Report(data=data, text=text, exit_code=0 if report.ok else 1)


def _told(access: "TenantAccess | None") -> dict[str, str | None]:
    if access is None:
        return {}
    secret = access.client_secret.get_secret_value() if access.client_secret else None
    return {"principal": access.principal, "client_id": access.client_id, "client_secret": secret}


def _described(session: "BootstrapSession", tenant: str) -> dict[str, Any]:
    from floe_iceberg.legal_hold import namespace_holds
    from floe_tenancy.layout import namespaces_of, tables_of

    namespace = ".".join(session.config.namespace_for(tenant))
    namespaces = namespaces_of(session.manager, namespace)
    if not namespaces:
        msg = f"There is no tenant '{tenant}'."
        raise NamespaceNotFoundError(msg, hint="floe tenants list shows who is there.")
    holds = namespace_holds(session.manager.namespaces, session.config.namespace_for(tenant))
    return {
        "tenant": tenant,
        "namespace": namespace,
        "namespaces": namespaces,
        "warehouse_uri": session.config.warehouse_uri_for(tenant),
        "metadata_uri": session.config.metadata_uri_for(tenant),
        "legal_hold": "; ".join(holds.values()) or None,
        "markers": session.storage.read_markers(tenant),
        "tables": [
            {"name": t.name, "rows": t.rows, "snapshot_id": t.snapshot_id, "location": t.places[0]}
            for t in tables_of(session.manager, namespaces)
        ],
    }


def _plan_data(plan: "OffboardingPlan") -> dict[str, Any]:
    return {
        "tenant": plan.tenant,
        "namespaces": list(plan.namespaces),
        "tables": {table.name: table.rows for table in plan.tables},
        "objects": plan.objects,
        "bytes": plan.bytes,
        "left_behind": list(plan.outside),
        "legal_holds": list(plan.holds),
        "tables_of_others": list(plan.intruders),
        "shared_tables": list(plan.sharing),
        "has_credentials": plan.has_access,
    }


def _plan_text(plan: "OffboardingPlan", export: str | None) -> list[Any]:
    if plan.is_empty:
        return [f"Nothing of the tenant {plan.tenant} is there."]
    pairs = [
        ("Export", export or "none"),
        ("Credentials", "would end" if plan.has_access else ""),
        ("Namespaces", ", ".join(plan.namespaces)),
        ("Objects", f"{plan.objects:,}, {size(plan.bytes)}"),
        ("Left behind", ", ".join(plan.outside)),
        ("Legal hold", "; ".join(plan.holds)),
        ("In the way", ", ".join(plan.intruders)),
        ("Shared files", ", ".join(plan.sharing)),
    ]
    rows = [(table.name, f"{table.rows:,}") for table in plan.tables]
    closing = "Off-boarding would be refused." if plan.is_blocked else "Nothing was changed. Repeat without --dry-run."
    return [
        f"Would remove the tenant {plan.tenant}:",
        fields(pairs),
        "",
        grid(["TABLE", "ROWS"], rows, right=["ROWS"]),
        "",
        closing,
    ]


def _result_data(result: "OffboardingResult") -> dict[str, Any]:
    return {
        "removed": True,
        "exported_rows": result.exported,
        "deleted_objects": result.deleted_objects,
        "journal": str(result.journal),
        "resumed": result.resumed,
    }


def _result_text(result: "OffboardingResult") -> list[Any]:
    pairs = [
        ("Exported", ", ".join(f"{name} ({rows:,} rows)" for name, rows in result.exported.items())),
        ("Dropped", ", ".join(table.name for table in result.plan.tables)),
        ("Deleted", count(result.deleted_objects, "object")),
        ("Left behind", ", ".join(result.plan.outside)),
        ("Journal", result.journal),
    ]
    resumed = ["An interrupted off-boarding was taken up where it had stopped."] if result.resumed else []
    return [*resumed, f"Removed the tenant {result.plan.tenant}; a listing shows nothing left.", fields(pairs)]
