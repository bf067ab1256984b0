"""Attacks by a tenant with its own credentials: raw requests without floe's clients.

Each attack is a single request that a server must refuse. ``make test-polaris`` runs them against a Polaris server;
other tests use a gateway that authorizes like Polaris, in front of the reference server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSED = frozenset({403})
# S3 clients may refuse dots in names before the server checks authorization.
REFUSED_OR_UNUSABLE = frozenset({400, 403})
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
VIEW = {
    "name": "spy",
    "schema": SCHEMA,
    "properties": {},
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": [],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    },
}


@dataclass(frozen=True)
class TenantPair:
    """Two tenants of one catalog.

    Attributes:
        prefix: The server's path prefix; the catalog's name on Polaris.
        own: The attacker's namespace.
        victim: The victim's namespace.
        own_location: Location of the attacker's namespace.
        victim_location: Location of the victim's namespace.
        table: A table that exists in both namespaces.
        victim_metadata: Metadata file of the victim's table.
        principal: Name of the attacker's principal and roles.
        victim_principal: Name of the victim's principal and roles.
        separator: Separator between the parts of a namespace in URLs.
    """

    prefix: str
    own: tuple[str, ...]
    victim: tuple[str, ...]
    own_location: str
    victim_location: str
    table: str
    victim_metadata: str
    principal: str
    victim_principal: str
    separator: str = "%1F"

    @property
    def base(self) -> str:
        """The common parent location."""
        return self.own_location.rpartition("/")[0]


@dataclass(frozen=True)
class Attack:
    """A request, and the response statuses that mean it was refused."""

    method: str
    path: str
    body: Any = None
    denied: frozenset[int] = REFUSED


def _path(namespace: tuple[str, ...], *rest: str) -> str:
    return "/".join(["namespaces", "%1F".join(quote(part, safe="") for part in namespace), *rest])


def _create(**fields: Any) -> Callable[[TenantPair], Any]:
    def body(pair: TenantPair) -> Any:
        filled = {
            key: value.format(own=pair.own_location, victim=pair.victim_location, base=pair.base)
            for key, value in fields.items()
            if isinstance(value, str)
        }
        properties = {
            key: value.format(victim=pair.victim_location) for key, value in fields.get("properties", {}).items()
        }
        stage = {"stage-create": True} if fields.get("stage") else {}
        return {"name": "spy", "schema": SCHEMA, **filled, "properties": properties, **stage}

    return body


# Locations at which a tenant's own table could affect others.
PLACES: dict[str, tuple[dict[str, Any], frozenset[int]]] = {
    "in the neighbor's prefix": ({"location": "{victim}/spy"}, REFUSED),
    "over the neighbor's table": ({"location": "{victim}/events"}, REFUSED),
    "over all tenants": ({"location": "{base}"}, REFUSED),
    "next to its own prefix": ({"location": "{own}x/spy"}, REFUSED),
    "with another scheme": ({"location": "s3a://lake/elsewhere/spy"}, REFUSED),
    "on the server's disk": ({"location": "file:///etc/spy"}, REFUSED),
    "on another cloud": ({"location": "gs://lake/spy"}, REFUSED),
    "at a network address": ({"location": "http://127.0.0.1:1/spy"}, REFUSED),
    "with data elsewhere": ({"properties": {"write.data.path": "{victim}/spy"}}, REFUSED),
    "with metadata elsewhere": ({"properties": {"write.metadata.path": "{victim}/spy"}}, REFUSED),
}


def _attacks() -> dict[str, Callable[[TenantPair], Attack]]:
    found: dict[str, Callable[[TenantPair], Attack]] = {}

    def add(name: str, make: Callable[[TenantPair], Attack]) -> None:
        found[name] = make

    for where, (fields, denied) in PLACES.items():
        for verb, stage in (("create", False), ("stage", True)):
            body = _create(**fields, stage=stage)
            add(
                f"{verb} a table {where}",
                lambda pair, body=body, denied=denied: Attack(  # type: ignore[misc]
                    "POST", _path(pair.own, "tables"), body(pair), denied
                ),
            )
    dots = _create(location="{own}/../beta/spy")
    add(
        "create a table with dots in its location",
        lambda r: Attack("POST", _path(r.own, "tables"), dots(r), REFUSED_OR_UNUSABLE),
    )
    add(
        "remove the location of its namespace",
        lambda r: Attack("POST", _path(r.own, "properties"), {"removals": ["location"]}),
    )
    add(
        "move its namespace",
        lambda r: Attack("POST", _path(r.own, "properties"), {"updates": {"location": r.base}}),
    )
    add(
        "lift a legal hold of its namespace",
        lambda r: Attack("POST", _path(r.own, "properties"), {"updates": {"floe.legal-hold": "false"}}),
    )
    for whose, parts in (("the neighbor's", lambda r: r.victim), ("the parent", lambda r: r.own[:-1])):
        add(f"read {whose} namespace", lambda r, p=parts: Attack("GET", _path(p(r))))  # type: ignore[misc]
        add(f"list {whose} tables", lambda r, p=parts: Attack("GET", _path(p(r), "tables")))  # type: ignore[misc]
        add(
            f"write properties of {whose} namespace",
            lambda r, p=parts: Attack("POST", _path(p(r), "properties"), {"updates": {"a": "b"}}),  # type: ignore[misc]
        )
        add(f"drop {whose} namespace", lambda r, p=parts: Attack("DELETE", _path(p(r))))  # type: ignore[misc]
    add("list all namespaces", lambda _: Attack("GET", "namespaces"))
    add("list the tenants", lambda r: Attack("GET", f"namespaces?parent={quote(r.own[0])}"))
    add("load the neighbor's table", lambda r: Attack("GET", _path(r.victim, "tables", r.table)))
    add(
        "request credentials for the neighbor's table",
        lambda r: Attack("GET", _path(r.victim, "tables", r.table, "credentials")),
    )
    add("drop the neighbor's table", lambda r: Attack("DELETE", _path(r.victim, "tables", r.table)))
    add(
        "purge the neighbor's table",
        lambda r: Attack("DELETE", _path(r.victim, "tables", r.table) + "?purgeRequested=true"),
    )
    add("create a table in the neighbor's namespace", lambda r: Attack("POST", _path(r.victim, "tables"), _create()(r)))
    add(
        "commit to the neighbor's table",
        lambda r: Attack("POST", _path(r.victim, "tables", r.table), _commit("set-properties", updates={"a": "b"})),
    )
    add(
        "register the neighbor's metadata",
        lambda r: Attack("POST", _path(r.own, "register"), {"name": "spy", "metadata-location": r.victim_metadata}),
    )
    add(
        "move its table into the neighbor's prefix",
        lambda r: Attack(
            "POST", _path(r.own, "tables", r.table), _commit("set-location", location=f"{r.victim_location}/spy")
        ),
    )
    add(
        "write its data into the neighbor's prefix",
        lambda r: Attack(
            "POST",
            _path(r.own, "tables", r.table),
            _commit("set-properties", updates={"write.data.path": f"{r.victim_location}/spy"}),
        ),
    )
    add(
        "rename the neighbor's table to its own",
        lambda r: Attack("POST", "tables/rename", _rename((*r.victim, r.table), (*r.own, "spy"))),
    )
    add(
        "rename its table into the neighbor's namespace",
        lambda r: Attack("POST", "tables/rename", _rename((*r.own, r.table), (*r.victim, "spy"))),
    )
    add("create a tenant", lambda r: Attack("POST", "namespaces", {"namespace": [*r.own[:-1], "spy"]}))
    add("create a top-level namespace", lambda _: Attack("POST", "namespaces", {"namespace": ["spy"]}))
    add(
        "create a child namespace in the neighbor's prefix",
        lambda r: Attack(
            "POST",
            "namespaces",
            {"namespace": [*r.own, "spy"], "properties": {"location": f"{r.victim_location}/spy"}},
            REFUSED_OR_UNUSABLE,
        ),
    )
    add("create a view", lambda r: Attack("POST", _path(r.own, "views"), VIEW))
    add("create a view in the neighbor's namespace", lambda r: Attack("POST", _path(r.victim, "views"), VIEW))
    return found


def _commit(action: str, **fields: Any) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": action, **fields}]}


def _rename(source: tuple[str, ...], destination: tuple[str, ...]) -> dict[str, Any]:
    return {
        "source": {"namespace": list(source[:-1]), "name": source[-1]},
        "destination": {"namespace": list(destination[:-1]), "name": destination[-1]},
    }


ATTACKS = _attacks()


def _role(pair: TenantPair, name: str, *rest: str) -> str:
    return "/".join(["catalogs", pair.prefix, "catalog-roles", name, *rest])


# Management API requests that would give a tenant more privileges than it has.
ESCALATIONS: dict[str, Callable[[TenantPair], Attack]] = {
    "list the catalogs": lambda _: Attack("GET", "catalogs"),
    "list the principals": lambda _: Attack("GET", "principals"),
    "list the roles": lambda r: Attack("GET", f"catalogs/{r.prefix}/catalog-roles"),
    "list its own grants": lambda r: Attack("GET", _role(r, r.principal, "grants")),
    "grant itself the catalog": lambda r: Attack(
        "PUT", _role(r, r.principal, "grants"), {"grant": {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}}
    ),
    "grant itself its namespace's properties": lambda r: Attack(
        "PUT",
        _role(r, r.principal, "grants"),
        {"grant": {"type": "namespace", "namespace": list(r.own), "privilege": "NAMESPACE_WRITE_PROPERTIES"}},
    ),
    "become an administrator": lambda r: Attack(
        "PUT", f"principals/{r.principal}/principal-roles", {"principalRole": {"name": "service_admin"}}
    ),
    "take the neighbor's role": lambda r: Attack(
        "PUT", f"principals/{r.principal}/principal-roles", {"principalRole": {"name": r.victim_principal}}
    ),
    "take the neighbor's catalog role": lambda r: Attack(
        "PUT",
        f"principal-roles/{r.principal}/catalog-roles/{r.prefix}",
        {"catalogRole": {"name": r.victim_principal}},
    ),
    "create a principal": lambda r: Attack("POST", "principals", {"principal": {"name": f"{r.principal}.spy"}}),
    "reset the neighbor's secret": lambda r: Attack("POST", f"principals/{r.victim_principal}/reset", {}),
    "rotate the neighbor's secret": lambda r: Attack("POST", f"principals/{r.victim_principal}/rotate", {}),
    "delete the neighbor's principal": lambda r: Attack("DELETE", f"principals/{r.victim_principal}"),
    "change the catalog's settings": lambda r: Attack(
        "PUT",
        f"catalogs/{r.prefix}",
        {"currentEntityVersion": 1, "properties": {"polaris.config.allow.unstructured.table.location": "true"}},
    ),
    "delete the catalog": lambda r: Attack("DELETE", f"catalogs/{r.prefix}"),
}


@dataclass(frozen=True)
class Answer:
    """A server's response."""

    status: int
    message: str
    content: Any


class Intruder:
    """Sends raw requests as a tenant."""

    def __init__(self, uri: str, *, client_id: str, client_secret: str, scope: str = "PRINCIPAL_ROLE:ALL") -> None:
        """Get a token with the tenant's credentials.

        Args:
            uri: Address of the catalog, without ``/v1``.
            client_id: Client id of the tenant.
            client_secret: Client secret of the tenant.
            scope: Requested scope of the token.
        """
        self._uri = uri.rstrip("/")
        self._session = requests.Session()
        # Ignore the machine's proxy settings.
        self._session.trust_env = False
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret,
            "scope": scope,
        }
        reply = self._session.post(f"{self._uri}/v1/oauth/tokens", data=form, timeout=60)
        reply.raise_for_status()
        self._session.headers["Authorization"] = f"Bearer {reply.json()['access_token']}"

    def send(self, root: str, attack: Attack) -> Answer:
        """Send a request below a root path of the server."""
        reply = self._session.request(
            attack.method, f"{root}/{attack.path}", json=attack.body, headers=VENDED, timeout=60
        )
        try:
            content = json.loads(reply.text or "{}")
        except ValueError:
            content = {}
        message = (content.get("error") or {}).get("message", "") if isinstance(content, dict) else ""
        return Answer(reply.status_code, message, content)

    def catalog(self, pair: TenantPair, attack: Attack) -> Answer:
        """Send a request to the catalog."""
        written = replace(attack, path=attack.path.replace("%1F", pair.separator))
        return self.send("/".join(filter(None, [self._uri, "v1", pair.prefix])), written)

    def management(self, attack: Attack) -> Answer:
        """Send a request to Polaris's management API."""
        return self.send(f"{self._uri.removesuffix('/api/catalog')}/api/management/v1", attack)

    def polaris(self, pair: TenantPair, attack: Attack) -> Answer:
        """Send a request to Polaris's own catalog API: generic tables and policies."""
        return self.send(f"{self._uri}/polaris/v1/{pair.prefix}", attack)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
