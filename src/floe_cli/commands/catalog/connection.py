"""``floe catalog``."""

import time
from typing import TYPE_CHECKING

from floe_cli.command import command, command_group
from floe_cli.commands.catalog.administration import create, grant, list_catalogs, revoke, show
from floe_cli.doctor.connection import probe_catalog
from floe_cli.output import Report, fields, working
from floe_cli.workspace import Workspace
from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_polaris import PolarisCatalogConfig

app = command_group("Test the catalog connection, and administer catalogs of a Polaris server.")


@command(app)
def ping(workspace: Workspace) -> Report:
    """Connect to the catalog, authenticate and list its namespaces.

    Examples:
        floe catalog ping
        floe catalog ping --env prod
    """
    started = time.perf_counter()
    with working("Querying the catalog"), workspace.connection() as connection:
        connected = time.perf_counter()
        response = probe_catalog(connection)
        answered = time.perf_counter()
        can = connection.catalog_plugin.capabilities
    took = {"connect_ms": _ms(connected - started), "ask_ms": _ms(answered - connected)}
    limits = [name for name in ("branches", "nested_namespaces", "purge") if not getattr(can, name)]
    missing = f"Not supported: {', '.join(limits)}." if limits else None
    return Report(
        data={"answer": response, **took, "cannot": limits},
        text=[
            f"The {response} (connected in {took['connect_ms']} ms, responded in {took['ask_ms']} ms).",
            *([missing] if missing else []),
        ],
    )


@command(app)
def login(workspace: Workspace) -> Report:
    """Get a token and show how long it is valid.

    The token is not stored.

    Examples:
        floe catalog login --env prod
    """
    from floe_core.retry import CircuitBreaker
    from floe_polaris.transport.auth import ClientCredentials, authenticator_for

    settings = rest_settings(workspace)
    breaker = CircuitBreaker(settings.circuit_breaker, name="token endpoint")
    authenticator = authenticator_for(settings, breaker=breaker)
    if not isinstance(authenticator, ClientCredentials):
        kind = "a configured token" if settings.token else "no credentials"
        return Report(
            data={"authentication": kind, "expires_in_seconds": None},
            text=[f"The connection uses {kind}; no login is needed."],
        )
    workspace.announce()
    with working("Requesting a token"):
        authenticator.auth_header()
    seconds = authenticator.seconds_valid()
    validity = f"it is valid for {seconds:.0f} s" if seconds is not None else "it has no expiry"
    return Report(
        data={
            "authentication": "client credentials",
            "client_id": settings.client_id,
            "scope": settings.scope,
            "token_endpoint": settings.token_uri,
            "expires_in_seconds": round(seconds) if seconds is not None else None,
        },
        text=[f"Client '{settings.client_id}' got a token from {settings.token_uri}; {validity}."],
    )


@command(app, "config")
def show_config(workspace: Workspace) -> Report:
    """Show the connection settings; secrets are shown as references.

    Examples:
        floe catalog config
        floe catalog config --env prod --output json
    """
    section = workspace.artifacts.catalog.model_dump(mode="json", exclude_none=True)
    rows = [(key, str(value)) for key, value in _flat(section)]
    return Report(data=section, text=[fields(rows)])


COMMANDS: "dict[str, Callable[..., Report | None]]" = {
    "create": create,
    "list": list_catalogs,
    "show": show,
    "grant": grant,
    "revoke": revoke,
}

for name, function in COMMANDS.items():
    command(app, name)(function)


def rest_settings(workspace: Workspace) -> "PolarisCatalogConfig":
    """Return the connection settings with resolved secrets.

    Raises:
        CapabilityError: The catalog is not a REST catalog.
    """
    from floe_core.declaration.expansion import expand_section
    from floe_core.plugins.registry import PluginRegistry
    from floe_core.plugins.secrets import open_secrets
    from floe_polaris import PolarisCatalogConfig

    plugins = PluginRegistry()
    try:
        secrets = open_secrets(workspace.artifacts, plugins)
        section = expand_section(workspace.artifacts.catalog, path="catalog", secrets=secrets)
        if section.uri is None or not section.uri.startswith(("http://", "https://")):
            msg = f"Catalogs of type '{section.type}' do not support this command."
            raise CapabilityError(msg, hint="It requires a REST catalog: set catalog.type to polaris or rest.")
        return PolarisCatalogConfig.from_catalog_config(section)
    finally:
        plugins.shutdown()


def _flat(section: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for key, value in section.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", value))
    return rows


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
