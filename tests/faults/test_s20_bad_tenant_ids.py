"""S20: invalid tenant ids are rejected before any I/O."""

from __future__ import annotations

import itertools
import random
import string

import pytest

from floe_core.errors import InvalidIdentifierError
from floe_tenancy import CatalogProvider, IcebergCatalogBootstrapper, IcebergCatalogConfig, bootstrap_many
from floe_tenancy.project.fleet import TenantState

GOOD = set(string.ascii_letters + string.digits + "-_")
SPELLED_OUT = [
    "", ".", "..", "...", "a/b", "/a", "a/", "../a", "a/../b", "a\\b", "..\\a", "*", "a*", "?", "'", '"', "a'b", "a;b",
    "a b", " a", "a ", "\ta", "a\n", "a\r\n", "\x00", "a\x00b", "a\x7f", "%2e", "%2e%2e", "%2f", "a%00", "a.b", ".a",
    "-a", "_a", "a:b", "a@b", "a#b", "a&b", "a=b", "a+b", "a,b", "$HOME", "${HOME}", "`id`", "$(id)", "~", "~root",
    # Homoglyphs: Cyrillic, full width, Roman numerals, ligatures, dotted I, Arabic digits, invisible characters.
    "\u0430", "\u0430cme", "\uff41cme", "acme\u200b", "acme\u202e", "\u2170", "\ufb01", "\u0130", "\u00df", "\u00e9",
    "e\u0301", "\u0661", "\u00b2", "\ud800", "\U0001f600",
    "a" * 64, "a" * 10_000, "--", "-", "_", "CON:", "nul.", "a|b", "a<b", "{a}", "[a]", "(a)", "a!", "a^b",
]  # fmt: skip
NO_TEXT = [None, 1, 1.5, True, b"acme", ["acme"], ("acme",), {"id": "acme"}]


def generated() -> list[str]:
    """Give ids with something forbidden in them, the same ones every time."""
    chance = random.Random(20)  # noqa: S311 - reproducible, not secret
    odd = [chr(code) for code in range(1, 0x250) if chr(code) not in GOOD]
    inside = [f"ten{char}ant" for char in odd]
    letters = [*odd, *string.ascii_lowercase]
    mixed = ["".join(chance.choices(letters, k=chance.randint(1, 30))) + chance.choice(odd) for _ in range(200)]
    climbing = ["/".join(parts) for parts in itertools.product(["..", "tenant-10", "."], repeat=3)]
    return list(dict.fromkeys([*SPELLED_OUT, *inside, *mixed, *climbing]))


IDS = generated()


@pytest.fixture
def untouched():
    """Give a bootstrapper that fails the test at the first sign of I/O."""

    def touched(*_):
        pytest.fail("a bad id reached the catalog or the store")

    return IcebergCatalogBootstrapper(catalog_loader=touched, storage_factory=touched)


@pytest.fixture
def config(tmp_path):
    return IcebergCatalogConfig(name="clients", provider=CatalogProvider.LOCAL, warehouse_bucket=str(tmp_path / "wh"))


@pytest.mark.req("TN-01")
def test_s20_bad_ids_are_refused_before_any_io(untouched, config, tmp_path):
    assert len(IDS) >= 500
    for tenant in [*IDS, *NO_TEXT]:
        with pytest.raises(InvalidIdentifierError) as refused:
            untouched.bootstrap_client(tenant, config)
        assert str(refused.value).isascii()
        assert len(str(refused.value)) < 250
        with pytest.raises(InvalidIdentifierError):
            untouched.open_catalog(tenant, config)
    assert list(tmp_path.iterdir()) == []


def test_s20_a_bad_id_among_many_stops_nobody_else(tmp_path):
    from floe_testing.tenants import EmbeddedTenants

    tenants = EmbeddedTenants(tmp_path)
    report = bootstrap_many(tenants.bootstrapper, ["acme", "../acme", "beta"], tenants.config)
    assert [outcome.state for outcome in report.outcomes] == [TenantState.DONE, TenantState.FAILED, TenantState.DONE]
    tenants.close()
