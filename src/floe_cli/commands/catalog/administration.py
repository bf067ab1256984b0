"""Create and show catalogs of a Polaris server, and manage their roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.commands.catalog.namespaces import pairs
from floe_cli.output import Report, count, fields, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from floe_polaris import PolarisManagement
    from floe_polaris.management import CatalogInfo, Grant

CatalogOption = Annotated[
    str | None,
    typer.Option("--catalog", metavar="NAME", help="Catalog; default: catalog.warehouse.", show_default=False),
]
NewRoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Catalog role; created if it does not exist.")]
RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Catalog role.")]
PrivilegesArgument = Annotated[
    list[str], typer.Argument(metavar="PRIVILEGE…", help="Privilege, such as CATALOG_MANAGE_CONTENT.")
]
NamespaceOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Scope: this namespace and those below it.", show_default=False)
]
TableOption = Annotated[str | None, typer.Option(metavar="NAME", help="Scope: this table.", show_default=False)]
ViewOption = Annotated[str | None, typer.Option(metavar="NAME", help="Scope: this view.", show_default=False)]


def text_option(description: str) -> Any:  # noqa: ANN401 - typer keeps the type private
    """Return an option for one storage type."""
    return typer.Option(help=description, show_default=False)


def create(
    workspace: Workspace,
    location: Annotated[
        str,
        typer.Argument(metavar="LOCATION", help="Base location of its tables: s3://…, gs://…, abfss://… or file://…"),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Catalog name; default: catalog.warehouse.", show_default=False),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow", metavar="LOCATION", help="Additional allowed location; repeatable.", show_default=False
        ),
    ] = None,
    region: Annotated[str | None, text_option("S3: region.")] = None,
    endpoint: Annotated[str | None, text_option("S3: endpoint for clients, and by default for Polaris.")] = None,
    endpoint_internal: Annotated[str | None, text_option("S3: endpoint for Polaris, if it differs.")] = None,
    sts_endpoint: Annotated[str | None, text_option("S3: STS endpoint.")] = None,
    role_arn: Annotated[str | None, text_option("S3: role that Polaris assumes to vend credentials.")] = None,
    external_id: Annotated[str | None, text_option("S3: external id in the role's trust policy.")] = None,
    service_account: Annotated[str | None, text_option("GCS: service account.")] = None,
    tenant_id: Annotated[str | None, text_option("Azure: tenant of the storage account.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", help="Catalog property; repeatable.", show_default=False),
    ] = None,
    *,
    path_style: Annotated[bool, typer.Option("--path-style", help="S3: use path-style access, as for MinIO.")] = False,
    sts_unavailable: Annotated[bool, typer.Option("--sts-unavailable", help="S3: do not vend credentials.")] = False,
    kms_unavailable: Annotated[
        bool, typer.Option("--kms-unavailable", help="S3: KMS is not available, as with MinIO.")
    ] = False,
    hierarchical: Annotated[
        bool, typer.Option("--hierarchical", help="Azure: the account has a hierarchical namespace.")
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge/--no-purge", help="Allow purging tables, which deletes their files.")
    ] = True,
) -> Report:
    """Create a catalog on a Polaris server, unless it exists.

    Examples:
        floe catalog create s3://lake/sales --role-arn arn:aws:iam::123456789012:role/polaris
        floe catalog create s3://lake/sales --endpoint http://localhost:9000 --path-style --kms-unavailable
        floe catalog create gs://lake/sales --service-account polaris@shop.iam.gserviceaccount.com
        floe catalog create abfss://lake@shop.dfs.core.windows.net/sales --tenant-id 72f988bf-86f1
        floe catalog create file:///var/polaris/lake trial
    """
    from floe_polaris.storage_info import storage_info

    storage = storage_info(
        location,
        allowed=tuple(allow or ()),
        region=region,
        endpoint=endpoint,
        endpoint_internal=endpoint_internal,
        sts_endpoint=sts_endpoint,
        role_arn=role_arn,
        external_id=external_id,
        service_account=service_account,
        tenant_id=tenant_id,
        path_style_access=path_style or None,
        sts_unavailable=sts_unavailable or None,
        kms_unavailable=kms_unavailable or None,
        hierarchical=hierarchical or None,
    )
    with _management(workspace) as management:
        chosen = _name(workspace, name)
        with working("Creating the catalog"):
            made = management.ensure_catalog(
                chosen, base_location=location, storage=storage, purge=purge, properties=pairs(properties)
            )
    text = [f"Created catalog {chosen} at {location}." if made else f"Catalog {chosen} already exists."]
    if made:
        text.append(
            "To allow writes to its tables: floe catalog grant content CATALOG_MANAGE_CONTENT --to service_admin"
        )
    return Report(data={"catalog": chosen, "created": made, "location": location}, text=text)


def list_catalogs(workspace: Workspace) -> Report:
    """List the catalogs of a Polaris server.

    Examples:
        floe catalog list
    """
    with _management(workspace) as management, working("Querying Polaris"):
        found = sorted(item.name for item in management.list_catalogs())
    return Report(data=found, text=found or ["No catalogs yet. Create one with: floe catalog create LOCATION NAME"])


def show(
    workspace: Workspace,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Catalog name; default: catalog.warehouse.", show_default=False),
    ] = None,
) -> Report:
    """Show the storage, roles and privileges of a Polaris catalog.

    Examples:
        floe catalog show
        floe catalog show lake --output json
    """
    with _management(workspace) as management, working("Querying Polaris"):
        info = _require_catalog(management, _name(workspace, name))
        roles = {role: management.list_grants(info.name, role) for role in management.list_catalog_roles(info.name)}
    granted = [(f"role {role}", "\n".join(map(str, grants)) or "nothing") for role, grants in sorted(roles.items())]
    return Report(
        data={
            "catalog": info.name,
            "type": info.type,
            "properties": info.properties,
            "storage": info.storage,
            "roles": {role: [_grant_data(grant) for grant in grants] for role, grants in roles.items()},
        },
        text=[
            fields(
                [
                    ("Catalog", info.name),
                    *((key, str(value)) for key, value in sorted(info.properties.items())),
                    *((key, _shown(value)) for key, value in info.storage.items()),
                    *granted,
                ]
            )
        ],
    )


def grant(
    workspace: Workspace,
    role: NewRoleArgument,
    privileges: PrivilegesArgument,
    namespace: NamespaceOption = None,
    table: TableOption = None,
    view: ViewOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="PRINCIPAL_ROLE", help="Also assign the role to this principal role.", show_default=False
        ),
    ] = None,
    catalog: CatalogOption = None,
) -> Report:
    """Grant privileges to a catalog role.

    They apply to the whole catalog, or only to a namespace, a table or a view.

    Examples:
        floe catalog grant content CATALOG_MANAGE_CONTENT --to service_admin
        floe catalog grant readers TABLE_READ_DATA TABLE_LIST NAMESPACE_LIST --namespace gold --to analysts
        floe catalog grant auditor TABLE_READ_DATA --table gold.daily
    """
    with _management(workspace) as management, working("Granting"):
        name = _name(workspace, catalog)
        wanted = _grants(privileges, namespace, table, view)
        _require_catalog(management, name)
        management.ensure_catalog_role(name, role)
        management.grant(name, role, wanted)
        if to is not None:
            management.ensure_principal_role(to)
            management.assign_catalog_role(to, name, role)
    assigned = f" (assigned to principal role {to})" if to else ""
    return Report(
        data={"catalog": name, "role": role, "granted": [_grant_data(one) for one in wanted], "to": to},
        text=[f"Granted to role {role} of catalog {name}{assigned}:", *(f"  {one}" for one in wanted)],
    )


def revoke(
    workspace: Workspace,
    role: RoleArgument,
    privileges: PrivilegesArgument,
    namespace: NamespaceOption = None,
    table: TableOption = None,
    view: ViewOption = None,
    catalog: CatalogOption = None,
) -> Report:
    """Revoke privileges from a catalog role.

    Privileges that the role does not have are ignored.

    Examples:
        floe catalog revoke readers TABLE_READ_DATA --namespace gold
        floe catalog revoke content CATALOG_MANAGE_CONTENT --catalog lake
    """
    with _management(workspace) as management, working("Revoking"):
        name = _name(workspace, catalog)
        wanted = _grants(privileges, namespace, table, view)
        had = management.find_grants(name, role)
        if had is None:
            msg = f"Catalog '{name}' has no role '{role}'."
            raise ConfigurationError(msg, hint="List the roles with: floe catalog show")
        gone = [one for one in wanted if one in had]
        management.revoke(name, role, gone)
    return Report(
        data={"catalog": name, "role": role, "revoked": [_grant_data(one) for one in gone]},
        text=[
            f"Revoked {count(len(gone), 'privilege')} from role {role} of catalog {name}.",
            *(f"  {one}" for one in gone),
        ],
    )


@contextmanager
def _management(workspace: Workspace) -> Iterator["PolarisManagement"]:
    from floe_cli.commands.catalog.connection import rest_settings
    from floe_polaris import PolarisManagement

    settings = rest_settings(workspace)
    workspace.announce()
    management = PolarisManagement(settings)
    try:
        yield management
    finally:
        management.close()


def _name(workspace: Workspace, given: str | None) -> str:
    from floe_core.declaration.expansion import expand_section

    name = given or expand_section(workspace.artifacts.catalog, path="catalog").warehouse
    if name is None:
        msg = "No catalog name given."
        raise ConfigurationError(msg, hint="Pass the name, or set catalog.warehouse in floe.yaml.")
    return name


def _require_catalog(management: "PolarisManagement", name: str) -> "CatalogInfo":
    if (info := management.find_catalog(name)) is not None:
        return info
    msg = f"Catalog '{name}' not found on this server."
    raise ConfigurationError(msg, hint="Create it with: floe catalog create")


def _grants(privileges: list[str], namespace: str | None, table: str | None, view: str | None) -> "list[Grant]":
    from floe_iceberg.catalog.namespaces import parse_namespace
    from floe_polaris.management import Grant, GrantKind

    if sum(place is not None for place in (namespace, table, view)) > 1:
        msg = "--namespace, --table and --view cannot be combined."
        raise ConfigurationError(msg, hint="Pass only one of them.")
    place: dict[str, Any] = {"type": GrantKind.CATALOG}
    if namespace is not None:
        place = {"type": GrantKind.NAMESPACE, "namespace": parse_namespace(namespace)}
    elif leaf := table or view:
        *parts, last = parse_namespace(leaf)
        kind, key = (GrantKind.TABLE, "table_name") if table else (GrantKind.VIEW, "view_name")
        place = {"type": kind, "namespace": tuple(parts), key: last}
    return [Grant(privilege=privilege.upper(), **place) for privilege in dict.fromkeys(privileges)]


def _grant_data(grant: "Grant") -> dict[str, Any]:
    return grant.model_dump(mode="json", exclude_none=True)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
