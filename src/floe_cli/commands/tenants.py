"""``floe tenants``."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, command_group
from floe_cli.output import Report, count, fields, grid, mark, progress, size, working
from floe_cli.reports.tenant_reports import STATES, fleet_report, offboarded_report, plan_report, verified_report
from floe_cli.tenant_credentials import CredentialsFile, print_credentials
from floe_cli.timestamps import parse_age
from floe_cli.workspace import Workspace
from floe_core.errors import (
    CapabilityError,
    ConfigurationError,
    FloeStorageError,
    NamespaceNotFoundError,
    StorageError,
)
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from floe_tenancy import (
        BootstrapSession,
        IcebergCatalogBootstrapper,
        IcebergCatalogConfig,
        OffboardingStep,
        PolarisIsolation,
        TenantAccess,
    )

app = command_group("Manage tenants, from bootstrap to off-boarding.")

TenantArgument = Annotated[str, typer.Argument(metavar="ID", help="Tenant id; letters, digits, - and _.")]
TenantsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Tenant ids.", show_default=False)]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="Read tenant ids from a file, one per line.", show_default=False),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="Number of tenants to process in parallel; default: tenancy.concurrency.",
        show_default=False,
    ),
]
_JOURNALS = Path(".floe/offboarding")


class _Tenants:
    """A project's tenants, open for the duration of a command."""

    def __init__(self, workspace: Workspace, connection: Any) -> None:  # noqa: ANN401 - an open project
        from floe_tenancy import project_bootstrapper, tenancy_config, tenant_table_specs

        self.artifacts = workspace.artifacts
        self.connection = connection
        self.config: IcebergCatalogConfig = tenancy_config(connection)
        self.bootstrapper: IcebergCatalogBootstrapper = project_bootstrapper(connection)
        self.specs = tenant_table_specs(self.artifacts)
        self.journals = self.artifacts.project_root / _JOURNALS

    def refuse_offboarding(self, tenants: list[str]) -> None:
        """Refuse tenants that are being off-boarded: their credentials could still write to the new tenant's files."""
        for tenant in tenants:
            if (self.journals / f"{'.'.join(self.config.namespace_for(tenant))}.json").exists():
                msg = f"Tenant '{tenant}' is being off-boarded."
                raise ConfigurationError(msg, hint=f"Complete the off-boarding first: floe tenants offboard {tenant}")

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
        bool, typer.Option("--isolate", help="On Polaris: create credentials for each tenant and show them once.")
    ] = False,
    rotate: Annotated[bool, typer.Option("--rotate", help="With --isolate: replace existing credentials.")] = False,
    credentials_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --isolate: append the credentials to this file instead of printing them; only you may read it.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> Report:
    """Create the prefixes, namespaces and tables of tenants.

    Anything that already exists is not changed, so the command can be repeated. With --isolate, each tenant's
    credentials are delivered before the next tenant's are created, and excess privileges of a tenant are revoked.

    Examples:
        floe tenants bootstrap acme globex
        floe tenants bootstrap --file tenants.txt --concurrency 16 --yes
        floe tenants bootstrap --file tenants.txt --isolate --credentials-file tenants.secret
    """
    ids = _ids(tenants, file)
    if (rotate or credentials_file) and not isolate:
        msg = f"{'--rotate' if rotate else '--credentials-file'} requires --isolate."
        raise ConfigurationError(msg, hint="Add --isolate.")
    if isolate and not credentials_file and len(ids) > 1 and not workspace.prints_text:
        msg = "With --output json, credentials would be lost if the command failed midway."
        raise ConfigurationError(msg, hint="Add --credentials-file FILE.")
    if rotate:
        workspace.confirm_in_environment(f"Revoke the current credentials of {count(len(ids), 'tenant')}?", yes=yes)
    from floe_tenancy import TenantState, bootstrap_many

    with _opened(workspace) as opened:
        opened.refuse_offboarding(ids)
        isolation = _required(opened.isolation()) if isolate else None
        receiver = CredentialsFile(credentials_file) if credentials_file else None
        with progress("Bootstrapping", len(ids)) as advance:
            report = bootstrap_many(
                opened.bootstrapper,
                ids,
                opened.config,
                opened.specs,
                concurrency=concurrency or opened.artifacts.tenancy.concurrency,
                on_progress=lambda _: advance(),
            )
        made = [outcome.tenant for outcome in report.outcomes if outcome.state is not TenantState.FAILED]
        hand_over = receiver.take if receiver else print_credentials if workspace.prints_text else _leave_to_report
        access, failed = _isolated(isolation, made, rotate=rotate, hand_over=hand_over) if isolation else ({}, {})
        if receiver:
            receiver.close()
    return fleet_report(
        report, access, failed, secrets_printed=True, credentials_file=str(credentials_file or "") or None
    )


def _isolated(
    isolation: "PolarisIsolation",
    tenants: list[str],
    *,
    rotate: bool,
    hand_over: "Callable[[str, TenantAccess], None]",
) -> "tuple[dict[str, TenantAccess], dict[str, str]]":
    """Grant access to tenants one at a time; one tenant's failure does not stop the others."""
    access, failed = {}, {}
    for tenant in tenants:
        try:
            access[tenant] = isolation.grant(tenant, rotate=rotate, hand_over=partial(hand_over, tenant))
        except StorageError:
            # The credentials could not be delivered; the next ones would be lost as well.
            raise
        except FloeStorageError as err:
            failed[tenant] = redact_text(str(err))
    return access, failed


def _leave_to_report(_: str, __: "TenantAccess") -> None:
    return


@command(app, "list")
def list_tenants(workspace: Workspace) -> Report:
    """List the tenants.

    Examples:
        floe tenants list
    """
    with working("Reading the catalog"), _opened(workspace) as opened, opened.bootstrapper.session(opened.config) as s:
        found = s.tenants()
    return Report(data=found, text=found or ["No tenants yet. Create one with: floe tenants bootstrap ID"])


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, without changing it.")] = False,
) -> Report:
    """Add new columns to the tables of tenants.

    Adds the columns that tenancy.tables declares and a tenant's table lacks; by default, for all tenants.

    Examples:
        floe tenants evolve --dry-run  # all tenants, all tables
        floe tenants evolve acme --table bronze.orders
    """
    from floe_tenancy import evolve_all

    named = _ids(tenants, file) if tenants or file else None
    with _opened(workspace) as opened:
        specs = [spec for spec in opened.specs if table in (None, spec.name)]
        if not specs:
            declared = ", ".join(spec.name for spec in opened.specs)
            msg = f"Table '{table}' is not declared in tenancy.tables. Declared tables: {declared}."
            raise ConfigurationError(msg)
        ids = _known(opened, named) if named else _all_tenants(opened)
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
        (line["tenant"], line["table"], mark(STATES[line["state"]]), line["detail"])
        for line in lines
        if line["state"] != "skipped"
    ]
    totals = Counter(line["state"] for line in lines)
    changed = f"{count(totals['done'], 'table')} {'would change' if dry_run else 'changed'}"
    summary = f"{changed}, {totals['skipped']:,} up to date, {totals['failed']:,} failed."
    text: list[Any] = [grid(["TENANT", "TABLE", "STATE", ""], rows), "", summary] if rows else [summary]
    return Report(data=lines, text=text, exit_code=1 if totals["failed"] else 0)


@command(app)
def verify(workspace: Workspace, tenants: TenantsArgument = None, file: FileOption = None) -> Report:
    """Verify the namespaces, tables and files of tenants.

    By default, all tenants are verified. Checks that a tenant's namespace, location, markers and tables exist, that
    every file below its prefix is its own, and that no other table is located there. On Polaris, also checks that its
    credentials have exactly the privileges of a tenant.

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
    return verified_report(reports)


@command(app)
def offboard(
    workspace: Workspace,
    tenant: TenantArgument,
    export: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="DIR", help="First export every table to this location as Parquet.", show_default=False
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Lifetime of storage credentials vended by the catalog; default: 1h for tenants with credentials.",
            show_default=False,
        ),
    ] = None,
    *,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Do not wait until vended credentials expire; run the command again later."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, without removing it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> Report:
    """Remove a tenant with all its data.

    Revokes its credentials, drops its tables, views and namespaces, and deletes every file below its prefixes. Storage
    credentials vended earlier remain valid for a while: floe keeps deleting files until they expire or, with --no-wait,
    when the same command runs again. An interrupted off-boarding is resumed by running the command again. A legal hold
    (see docs/tenancy.md) prevents off-boarding.

    Examples:
        floe tenants offboard acme --dry-run
        floe tenants offboard acme --export backup/acme
        floe tenants offboard acme --no-wait  # run it again after the time it shows
    """
    _ids([tenant], None)
    limit = parse_age(grace) if grace is not None else None
    from floe_tenancy import TenantOffboarding

    with _opened(workspace) as opened, opened.bootstrapper.session(opened.config) as session:
        offboarding = TenantOffboarding(session, journal_folder=opened.journals, isolation=opened.isolation())
        plan = offboarding.plan(tenant)
        if dry_run:
            return plan_report(plan, export)
        plan.refuse_obstacles()
        what = f"{count(len(plan.tables), 'table')}, {count(plan.objects, 'object')}, {size(plan.bytes)}"
        workspace.confirm(f"Remove tenant {tenant} with {what}? This cannot be undone.", yes=yes)
        with working("Off-boarding"):
            result = offboarding.run(tenant, export_to=export, grace=limit, wait=not no_wait, on_step=_report_step)
    return offboarded_report(result)


def _report_step(step: "OffboardingStep") -> None:
    if step.value == "wait":
        note = "Everything is deleted. Waiting until the storage credentials vended to the tenant expire."
        typer.echo(f"{note} Ctrl-C is safe: run the same command again to continue.", err=True)


def _ids(tenants: list[str] | None, file: Path | None) -> list[str]:
    found = list(tenants or ())
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as err:
            msg = f"Cannot read {file}."
            raise ConfigurationError(msg, hint="Pass a text file with one tenant id per line.") from err
        found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not found:
        msg = "No tenant ids given."
        raise ConfigurationError(msg, hint="Pass tenant ids, or --file with one id per line.")
    from floe_tenancy import validate_tenant_id

    # Validate all ids before changing anything.
    return [validate_tenant_id(tenant) for tenant in dict.fromkeys(found)]


def _known(opened: _Tenants, ids: list[str]) -> list[str]:
    if unknown := sorted(set(ids) - set(_all_tenants(opened))):
        msg = f"Tenant not found: {', '.join(map(repr, unknown))}."
        raise NamespaceNotFoundError(msg, hint="List the tenants with: floe tenants list")
    return ids


def _all_tenants(opened: _Tenants) -> list[str]:
    with opened.bootstrapper.session(opened.config) as session:
        return session.tenants()


def _required(isolation: "PolarisIsolation | None") -> "PolarisIsolation":
    if isolation is None:
        msg = "--isolate requires a Polaris catalog."
        raise CapabilityError(msg, hint="Remove --isolate, or use a catalog of type polaris.")
    return isolation


def _described(session: "BootstrapSession", tenant: str) -> dict[str, Any]:
    from floe_iceberg.table.history.legal_hold import namespace_holds
    from floe_tenancy.layout.layout import namespaces_of, tables_of

    namespace = ".".join(session.config.namespace_for(tenant))
    namespaces = namespaces_of(session.manager, namespace)
    if not namespaces:
        msg = f"Tenant '{tenant}' not found."
        raise NamespaceNotFoundError(msg, hint="List the tenants with: floe tenants list")
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
