"""A tenant attacks another on a real Polaris server, with the credentials that floe created for it.

For attacks that the server accepts, a test shows that they have no effect.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector

from floe_core.schemas import AccessDelegation
from floe_iceberg import IcebergTableManager
from floe_polaris import create_catalog
from floe_polaris.management import TENANT_PRIVILEGES, Grant, GrantKind
from floe_tenancy import AccessReview, CatalogProvider, IcebergCatalogConfig, PolarisIsolation
from floe_tenancy.bootstrap import ensure_namespace, provision_tables
from floe_tenancy.layout.contents import contents_of, drop_content
from floe_tenancy.layout.layout import intruders, namespaces_of, places_of_all, tables_of
from floe_tenancy.tables import DEFAULT_TABLES
from floe_testing.stand_ins.tenant_attacks import ATTACKS, ESCALATIONS, SCHEMA, Attack, Intruder, TenantPair

OWN, VICTIM, TABLE = "acme", "beta", "events"
ROW = pa.table({"id": [1]})


class Site:
    """Two isolated tenants in a namespace of their own, as an administrator sees them."""

    def __init__(self, polaris_config, management, bucket):
        self.polaris_config, self.management = polaris_config, management
        self.config = IcebergCatalogConfig(
            name="lake",
            provider=CatalogProvider.S3,
            warehouse_bucket=bucket,
            warehouse_prefix=polaris_config.warehouse,
            namespace_prefix=(f"floe_{uuid.uuid4().hex[:10]}",),
        )
        self.isolation = PolarisIsolation(management, catalog=polaris_config.warehouse, config=self.config)
        self.catalog = create_catalog(polaris_config)
        self.manager = IcebergTableManager(self.catalog)
        for tenant in (OWN, VICTIM):
            # Like a bootstrap, but without markers, which need the administrator's keys and are not attacked here.
            namespace, location = self.config.namespace_for(tenant), self.config.warehouse_uri_for(tenant)
            ensure_namespace(self.manager, namespace, location)
            provision_tables(self.manager, tenant, self.config, DEFAULT_TABLES)
        self.access = {tenant: self.isolation.grant(tenant) for tenant in (OWN, VICTIM)}

    def name(self, tenant, table=TABLE):
        return ".".join((*self.config.namespace_for(tenant), table))

    @property
    def rooms(self):
        return TenantPair(
            prefix=self.polaris_config.warehouse,
            own=self.config.namespace_for(OWN),
            victim=self.config.namespace_for(VICTIM),
            own_location=self.config.warehouse_uri_for(OWN),
            victim_location=self.config.warehouse_uri_for(VICTIM),
            table=TABLE,
            victim_metadata=self.catalog.load_table(self.name(VICTIM)).metadata_location,
            principal=self.isolation.principal_of(OWN),
            victim_principal=self.isolation.principal_of(VICTIM),
        )

    def intruder(self, tenant=OWN):
        access = self.access[tenant]
        secret = access.client_secret.get_secret_value()
        return Intruder(self.polaris_config.uri, client_id=access.client_id, client_secret=secret)

    def state(self):
        """Return what must not change: the neighbor's namespace and tables, and everybody's privileges."""
        victim = ".".join(self.config.namespace_for(VICTIM))
        return {
            "tables": {
                table: self.catalog.load_table(f"{victim}.{table}").metadata_location
                for table in self.manager.list_tables(victim)
            },
            "contents": contents_of(self.manager, [victim]),
            "properties": {
                tenant: self.manager.namespaces.properties(self.config.namespace_for(tenant))
                for tenant in (OWN, VICTIM)
            },
            "tenants": self.manager.namespaces.list_below(self.config.namespace_prefix),
            "access": [self.isolation.review(tenant) for tenant in (OWN, VICTIM)],
        }


@pytest.fixture(scope="module")
def site(polaris_config, management, bucket):
    site = Site(polaris_config, management, bucket)
    yield site
    for tenant in (OWN, VICTIM):
        site.isolation.revoke(tenant)
    site.catalog.close()


@pytest.fixture(scope="module")
def recorded(site):
    """Give a book of what the server said; POLARIS_RECORD names the file that it is kept in."""
    said = {"privileges": list(TENANT_PRIVILEGES), "answers": {}}
    yield said
    if file := os.environ.get("POLARIS_RECORD"):
        text = json.dumps(said, indent=2, sort_keys=True) + "\n"
        rooms = site.rooms
        for name, plain in (
            (rooms.principal, "lake.tenants.acme"),
            (rooms.victim_principal, "lake.tenants.beta"),
            (site.config.namespace_prefix[0], "tenants"),
            (site.config.warehouse.uri(rooms.prefix), "s3://lake/lake"),
            (rooms.prefix, "lake"),
        ):
            text = text.replace(name, plain)
        Path(file).write_text(text)


@pytest.fixture(scope="module")
def intruder(site):
    intruder = site.intruder()
    yield intruder
    intruder.close()


def drop_own(site, *names):
    for name in names:
        for table in tables_of(site.manager, [".".join(site.config.namespace_for(OWN))]):
            if table.name.endswith(f".{name}"):
                site.manager.drop_table(table.name)


def test_a_tenant_has_exactly_its_privileges(site):
    assert [site.isolation.review(tenant) for tenant in (OWN, VICTIM)] == [AccessReview((), ())] * 2
    assert site.isolation.unsafe_settings() == []


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(site, intruder, recorded, name):
    attack, before = ATTACKS[name](site.rooms), site.state()
    answer = intruder.catalog(site.rooms, attack)
    recorded["answers"][name] = {"status": answer.status, "message": answer.message}
    assert answer.status in attack.denied, answer
    assert site.state() == before
    assert not site.manager.table_exists(site.name(OWN, "spy"))


@pytest.mark.parametrize("name", ESCALATIONS)
def test_a_tenant_cannot_give_itself_more(site, intruder, recorded, name):
    attack, before = ESCALATIONS[name](site.rooms), site.state()
    answer = intruder.management(attack)
    recorded["answers"][name] = {"status": answer.status, "message": answer.message}
    assert answer.status in attack.denied, answer
    assert site.state() == before


def test_a_token_for_another_role_brings_nothing(site):
    access = site.access[OWN]
    secret = access.client_secret.get_secret_value()
    intruder = Intruder(
        site.polaris_config.uri,
        client_id=access.client_id,
        client_secret=secret,
        scope="PRINCIPAL_ROLE:service_admin",
    )
    assert intruder.management(Attack("GET", "catalogs")).status == 403
    assert intruder.catalog(site.rooms, ATTACKS["load the neighbor's table"](site.rooms)).status == 403


def test_a_tenant_works_in_its_own_room(site):
    """What the privileges are for: all of it with nothing but the tenant's own credentials."""
    access = site.access[OWN]
    config = site.polaris_config.model_copy(
        update={"client_id": access.client_id, "client_secret": access.client_secret}
    )
    catalog = create_catalog(config)
    manager = IcebergTableManager(catalog)
    namespace = ".".join((*site.config.namespace_for(OWN), "bronze"))
    manager.create_namespace(namespace)
    table = f"{namespace}.orders"
    manager.create_table(table, ROW.schema)
    manager.append(table, ROW)
    manager.upsert(table, pa.table({"id": [1, 2]}), keys=["id"])
    manager.create_branch(table, "trial")
    manager.create_tag(table, "first")
    manager.set_properties(table, {"owner": "acme"})
    manager.expire_snapshots(table, older_than_days=0, retain_last=1)
    assert sorted(manager.scan(table)["id"].to_pylist()) == [1, 2]
    manager.rename_table(table, f"{namespace}.renamed")
    manager.drop_table(f"{namespace}.renamed")
    manager.namespaces.delete(namespace)
    catalog.close()


def vended_to(intruder, rooms, table):
    answer = intruder.catalog(rooms, Attack("GET", f"namespaces/{'%1F'.join(rooms.own)}/tables/{table}"))
    assert answer.status == 200, answer
    config = dict(answer.content.get("config", {}))
    for credentials in answer.content.get("storage-credentials") or ():
        config |= credentials["config"]
    return config


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="own table"),
        pytest.param({"location": "{own}/%2e%2e/beta/spy"}, id="encoded dots"),
        pytest.param({"location": "{own}/x/%2E%2E/%2E%2E/beta/spy"}, id="encoded dots upwards"),
        pytest.param({"properties": {"write.object-storage.path": "{victim}/spy"}}, id="object storage path"),
        pytest.param({"properties": {"write.folder-storage.path": "{victim}/spy"}}, id="folder storage path"),
    ],
)
def test_vended_keys_reach_the_own_table_alone(site, intruder, store_of, fields):
    """Polaris accepts these: to S3 an encoded dot is a character, and of the old path properties it takes no notice."""
    if site.polaris_config.access_delegation is AccessDelegation.NONE:
        pytest.skip("capability: delegation is switched off by POLARIS_DELEGATION")
    rooms, name = site.rooms, f"spy_{uuid.uuid4().hex[:6]}"
    own, victim = rooms.own_location, rooms.victim_location
    body = {"name": name, "schema": SCHEMA}
    if "location" in fields:
        body["location"] = fields["location"].format(own=own, victim=victim)
    body["properties"] = {key: text.format(victim=victim) for key, text in fields.get("properties", {}).items()}
    created = intruder.catalog(rooms, Attack("POST", f"namespaces/{'%1F'.join(rooms.own)}/tables", body))
    assert created.status == 200, created
    vended = vended_to(intruder, rooms, name)
    store = store_of(vended)
    place = created.content["metadata"]["location"].removeprefix("s3://")
    assert store.get_file_info(FileSelector(f"{place}/metadata", recursive=True))
    theirs = f"{victim}/{TABLE}".removeprefix("s3://")
    metadata = rooms.victim_metadata.removeprefix("s3://")
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        store.get_file_info(FileSelector(theirs, recursive=True))
    with pytest.raises(OSError, match=r"ACCESS_DENIED|Forbidden|403"):
        store.open_input_stream(metadata).read()
    with pytest.raises(OSError, match=r"ACCESS_DENIED|Forbidden|403"), store.open_output_stream(f"{theirs}/x") as out:
        out.write(b"x")
    with pytest.raises(OSError, match=r"ACCESS_DENIED|Forbidden|403"):
        store.delete_file(metadata)
    assert site.catalog.load_table(site.name(VICTIM)).metadata_location == rooms.victim_metadata
    drop_own(site, name)


def test_planted_metadata_cannot_be_registered(site, intruder, store_of):
    """A tenant may write any file below its table; what it says of other places is not believed."""
    if site.polaris_config.access_delegation is AccessDelegation.NONE:
        pytest.skip("capability: delegation is switched off by POLARIS_DELEGATION")
    rooms = site.rooms
    store = store_of(vended_to(intruder, rooms, TABLE))
    own = site.catalog.load_table(site.name(OWN)).metadata_location
    document = json.loads(store.open_input_stream(own.removeprefix("s3://")).read())
    folder = own.rpartition("/")[0]
    changes = {
        "location": {"location": f"{rooms.victim_location}/{TABLE}"},
        "data": {"properties": {"write.data.path": f"{rooms.victim_location}/spy"}},
        "dots": {"location": f"{rooms.own_location}/../{VICTIM}/{TABLE}"},
    }
    for name, change in changes.items():
        planted = f"{folder}/planted-{name}.metadata.json"
        with store.open_output_stream(planted.removeprefix("s3://")) as out:
            out.write(json.dumps({**document, **change}).encode())
        body = {"name": f"spy_{name}", "metadata-location": planted}
        answer = intruder.catalog(rooms, Attack("POST", f"namespaces/{'%1F'.join(rooms.own)}/register", body))
        assert answer.status in {400, 403}, answer
        assert not site.manager.table_exists(site.name(OWN, f"spy_{name}"))


def test_generic_tables_vend_nothing(site, intruder):
    """Polaris does not check where a generic table says that it lies, and gives no keys for it."""
    rooms = site.rooms
    namespace = f"namespaces/{'%1F'.join(rooms.own)}/generic-tables"
    body = {"name": "spy", "format": "delta", "base-location": f"{rooms.victim_location}/{TABLE}"}
    answer = intruder.polaris(rooms, Attack("POST", namespace, body))
    if answer.status == 404:
        pytest.skip("capability: this server has no generic tables")
    loaded = intruder.polaris(rooms, Attack("GET", f"{namespace}/spy"))
    assert not loaded.content.get("storage-access-configs")
    assert "credentials" not in json.dumps(loaded.content).lower()
    theirs = f"namespaces/{'%1F'.join(rooms.victim)}/generic-tables"
    assert intruder.polaris(rooms, Attack("POST", theirs, body)).status == 403
    assert intruder.polaris(rooms, Attack("GET", theirs)).status == 403
    # Off-boarding finds and drops it, too.
    [content] = contents_of(site.manager, [".".join(rooms.own)])
    assert str(content) == f"generic table {'.'.join(rooms.own)}.spy"
    drop_content(site.manager, content)
    assert contents_of(site.manager, [".".join(rooms.own)]) == []


@pytest.mark.parametrize("name", ["..", "a.b", "a/b", "x?y", "z#"])
def test_strange_names_stand_in_nobodys_way(site, intruder, name):
    """A tenant may name its namespaces as it likes; verification and off-boarding go on."""
    rooms = site.rooms
    answer = intruder.catalog(rooms, Attack("POST", "namespaces", {"namespace": [*rooms.own, name]}))
    if answer.status != 200:
        assert answer.status in {400, 403}, answer
        return
    own = ".".join(rooms.own)
    assert namespaces_of(site.manager, own) == [own]
    assert places_of_all(site.manager)
    [content] = contents_of(site.manager, [own])
    drop_content(site.manager, content)
    assert contents_of(site.manager, [own]) == []


def test_existence_can_be_guessed_and_nothing_more(site, intruder):
    """Polaris answers 404 for what is not there and 403 for what is: a tenant can confirm a name that it guesses."""
    rooms = site.rooms
    victim = "%1F".join(rooms.victim)
    assert intruder.catalog(rooms, Attack("HEAD", f"namespaces/{victim}/tables/{TABLE}")).status == 403
    assert intruder.catalog(rooms, Attack("HEAD", f"namespaces/{victim}/tables/nothing")).status == 404
    assert intruder.catalog(rooms, Attack("HEAD", f"namespaces/{rooms.own[0]}%1Fnobody")).status == 404


def test_the_privilege_that_floe_once_granted_opens_the_door(site, recorded):
    """Why a tenant may not write its namespace's properties: with them, Polaris checks against the parent."""
    third = "gamma"
    namespace = site.config.namespace_for(third)
    ensure_namespace(site.manager, namespace, site.config.warehouse_uri_for(third))
    site.access[third] = site.isolation.grant(third)
    intruder = site.intruder(third)
    rooms = replace(site.rooms, own=namespace, own_location=site.config.warehouse_uri_for(third))
    remove = ATTACKS["remove the location of its namespace"](rooms)
    create = ATTACKS["create a table in the neighbor's prefix"](rooms)
    assert [intruder.catalog(rooms, attack).status for attack in (remove, create)] == [403, 403]
    earlier = Grant(type=GrantKind.NAMESPACE, privilege="NAMESPACE_FULL_METADATA", namespace=namespace)
    site.management.grant(rooms.prefix, site.isolation.principal_of(third), [earlier])
    assert site.isolation.review(third).excess == (str(earlier),)
    recorded["grants with one too many"] = [
        grant.model_dump(mode="json", by_alias=True, exclude_none=True) | {"namespace": [*rooms.own[:-1], OWN]}
        for grant in site.management.list_grants(rooms.prefix, site.isolation.principal_of(third))
    ]
    through = [intruder.catalog(rooms, attack) for attack in (remove, create)]
    recorded["answers with NAMESPACE_FULL_METADATA"] = {
        "remove the location of its namespace": {"status": through[0].status, "content": through[0].content},
        "create a table in the neighbor's prefix": {
            "status": through[1].status,
            "location": through[1].content["metadata"]["location"],
            "keys for": [one["prefix"] for one in through[1].content.get("storage-credentials") or ()],
        },
    }
    assert [answer.status for answer in through] == [200, 200]
    # Running the same command again revokes the privilege, and finds what was created with it.
    assert site.isolation.grant(third).revoked == (str(earlier),)
    assert intruder.catalog(rooms, remove).status == 403
    spy = ".".join((*namespace, "spy"))
    assert intruders(site.config, VICTIM, places_of_all(site.manager)) == [spy]
    site.manager.drop_table(spy)
    site.isolation.revoke(third)
    intruder.close()
