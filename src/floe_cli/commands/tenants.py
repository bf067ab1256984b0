"""``floe tenants``."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, command_group
from floe_cli.moments import parse_age
from floe_cli.output import Report, count, fields, grid, mark, progress, size, working
from floe_cli.reports.tenant_reports import STATES, fleet_report, offboarded_report, plan_report, verified_report
from floe_cli.tenant_credentials import CredentialsFile, print_credentials
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


class _Tenants:
    """A project's tenants, open for the length of a command."""

    def __init__(self, workspace: Workspace, connection: Any) -> None:  # noqa: ANN401 - an open project
        from floe_tenancy import project_bootstrapper, tenancy_config, tenant_table_specs

        self.artifacts = workspace.artifacts
        self.connection = connection
        self.config: IcebergCatalogConfig = tenancy_config(connection)
        self.bootstrapper: IcebergCatalogBootstrapper = project_bootstrapper(connection)
        self.specs = tenant_table_specs(self.artifacts)
        self.journals = self.artifacts.project_root / _JOURNALS

    def refuse_leaving(self, tenants: list[str]) -> None:
        """Refuse tenants that are being off-boarded: keys of the old one could write into the new one's files."""
        for tenant in tenants:
            if (self.journals / f"{'.'.join(self.config.namespace_for(tenant))}.json").exists():
                msg = f"The tenant '{tenant}' is being off-boarded."
                raise ConfigurationError(msg, hint=f"Finish that first: floe tenants offboard {tenant}")

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
    credentials_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --isolate: append the credentials there, readable by you alone, instead of printing them.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Report:
    """Make tenants' prefixes, namespaces and tables.

    What is there already is left as it is, so the command can be repeated. With --isolate, each tenant's credentials
    are handed over before the next tenant's are made; a tenant's role that may do too much is put right.

    Examples:
        floe tenants bootstrap acme globex
        floe tenants bootstrap --file tenants.txt --concurrency 16 --yes
        floe tenants bootstrap --file tenants.txt --isolate --credentials-file tenants.secret
    """
    ids = _ids(tenants, file)
    if (rotate or credentials_file) and not isolate:
        msg = f"{'--rotate replaces' if rotate else '--credentials-file takes'} credentials, and --isolate gives them."
        raise ConfigurationError(msg, hint="Add --isolate.")
    if isolate and not credentials_file and len(ids) > 1 and not workspace.spoken:
        msg = "JSON is printed once, at the end: credentials of several tenants would be lost if this ended early."
        raise ConfigurationError(msg, hint="Add --credentials-file FILE.")
    if rotate:
        workspace.confirm_in_environment(f"End the present credentials of {count(len(ids), 'tenant')}?", yes=yes)
    from floe_tenancy import TenantState, bootstrap_many

    with _opened(workspace) as opened:
        opened.refuse_leaving(ids)
        isolation = _required(opened.isolation()) if isolate else None
        desk = CredentialsFile(credentials_file) if credentials_file else None
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
        hand_over = desk.take if desk else print_credentials if workspace.spoken else _told_in_the_report
        access, failed = _isolated(isolation, made, rotate=rotate, hand_over=hand_over) if isolation else ({}, {})
        if desk:
            desk.close()
    return fleet_report(report, access, failed, told=True, credentials_file=str(credentials_file or "") or None)


def _isolated(
    isolation: "PolarisIsolation",
    tenants: list[str],
    *,
    rotate: bool,
    hand_over: "Callable[[str, TenantAccess], None]",
) -> "tuple[dict[str, TenantAccess], dict[str, str]]":
    """Give tenants access one after the other; one's failure leaves what the others were told."""
    access, failed = {}, {}
    for tenant in tenants:
        try:
            access[tenant] = isolation.grant(tenant, rotate=rotate, hand_over=partial(hand_over, tenant))
        except StorageError:
            # Nobody could be told: another secret would be lost as well.
            raise
        except FloeStorageError as err:
            failed[tenant] = redact_text(str(err))
    return access, failed


def _told_in_the_report(_: str, __: "TenantAccess") -> None:
    return


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
        (line["tenant"], line["table"], mark(STATES[line["state"]]), line["detail"])
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
    return verified_report(reports)


@command(app)
def offboard(
    workspace: Workspace,
    tenant: TenantArgument,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="DIR", help="Copy every table there first, as Parquet.", show_default=False),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long storage keys live that the catalog gave out; default: 1h for tenants with credentials.",
            show_default=False,
        ),
    ] = None,
    *,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until these keys have ended; run it again after that.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Take the inventory, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Report:
    """Remove a tenant with all it has.

    Credentials end, tables, views and namespaces are dropped, and every file below its prefixes is deleted. Storage
    keys that the catalog gave the tenant before live on: floe goes on deleting until they have ended, or with --no-wait
    when the same command is run again. A run that was interrupted is taken up by the next one. A legal hold (see
    docs/tenancy.md) stops it.

    Examples:
        floe tenants offboard acme --dry-run
        floe tenants offboard acme --export backup/acme
        floe tenants offboard acme --no-wait  # and once more after the time it names
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
        workspace.confirm(f"Remove the tenant {tenant} with {what}? This cannot be undone.", yes=yes)
        with working("Off-boarding"):
            result = offboarding.run(tenant, export_to=export, grace=limit, wait=not no_wait, on_step=_say_step)
    return offboarded_report(result)


def _say_step(step: "OffboardingStep") -> None:
    if step.value == "wait":
        note = "Everything is deleted. Waiting until storage keys that the tenant was given before have ended;"
        typer.echo(f"{note} Ctrl-C is safe, the same command goes on.", err=True)


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


def _described(session: "BootstrapSession", tenant: str) -> dict[str, Any]:
    from floe_iceberg.table.history.legal_hold import namespace_holds
    from floe_tenancy.layout.layout import namespaces_of, tables_of

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
