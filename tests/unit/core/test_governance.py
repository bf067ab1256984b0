"""Retention of a table, derived from all levels of governance."""

from __future__ import annotations

import copy
import pickle

import pytest

from floe_core.errors import ConfigurationError
from floe_core.governance import DEFAULT_RETENTION_DAYS, PolicyEnforcer, RetentionDays
from floe_core.schemas import GovernanceConfig, RetentionConfig, RetentionPolicy

pytestmark = pytest.mark.req("RD-06")


def test_the_strictest_level_wins_and_the_derivation_names_it():
    days = PolicyEnforcer().get_snapshot_retention(
        enterprise_policy=RetentionPolicy(snapshot_retention_days=30, reason="SOX"),
        domain_policy={"snapshot_retention_days": 90},
        product_policy=14,
    )
    assert days == 90
    assert days.derivation == (
        "enterprise requires 30 days (SOX)",
        "domain requires 90 days",
        "product requires 14 days",
        "effective: 90 days, from domain (the strictest wins)",
    )


def test_a_legal_hold_lengthens_beyond_every_level():
    days = PolicyEnforcer.get_snapshot_retention(
        30, RetentionPolicy(snapshot_retention_days=5, legal_hold_days=400, reason="case 12"), None
    )
    assert days == 400
    assert "the legal hold of domain requires 400 days (case 12)" in days.derivation
    assert days.derivation[-1] == "effective: 400 days, from the legal hold of domain (the strictest wins)"


def test_seven_days_hold_when_nobody_asks():
    days = PolicyEnforcer.get_snapshot_retention(None, RetentionPolicy(), {})
    assert days == DEFAULT_RETENTION_DAYS == 7
    assert "no level sets a retention" in days.explain()


def test_a_short_legal_hold_does_not_shorten_the_default():
    assert PolicyEnforcer.get_snapshot_retention({"legal_hold_days": 2}) == 7


def test_an_ask_below_the_default_is_taken_at_its_word():
    assert PolicyEnforcer.get_snapshot_retention(product_policy=1) == 1
    assert PolicyEnforcer.get_snapshot_retention(product_policy=0) == 0


def test_the_table_itself_is_a_fourth_level():
    days = PolicyEnforcer.get_snapshot_retention(10, table_policy=RetentionConfig(snapshot_days=60))
    assert days == 60
    assert days.derivation[-1].startswith("effective: 60 days, from table")


def test_a_projects_governance_section_is_enough():
    governance = GovernanceConfig(enterprise=RetentionPolicy(snapshot_retention_days=21))
    assert PolicyEnforcer.retention_of(governance, RetentionConfig()) == 21


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(-1, id="negative"),
        pytest.param(100_000, id="too long"),
        pytest.param(True, id="boolean"),
        pytest.param("30", id="text"),
        pytest.param(1.5, id="fraction"),
        pytest.param({"days": 3}, id="unknown key"),
        pytest.param({"snapshot_retention_days": "soon"}, id="no number"),
    ],
)
def test_a_bad_policy_names_its_level(policy):
    with pytest.raises(ConfigurationError, match="domain"):
        PolicyEnforcer.get_snapshot_retention(domain_policy=policy)


def test_a_bad_policy_names_the_field_its_value_and_what_is_wrong_with_it():
    with pytest.raises(ConfigurationError) as caught:
        PolicyEnforcer.get_snapshot_retention(domain_policy={"snapshot_retention_days": -1})
    [problem] = caught.value.problems
    assert problem.path == "domain.snapshot_retention_days"
    assert problem.message.startswith("domain: snapshot_retention_days is -1: ")
    assert "greater than or equal to 0" in problem.message


def test_one_day_is_written_as_one():
    assert PolicyEnforcer.get_snapshot_retention(1).derivation[0] == "enterprise requires 1 day"
    assert PolicyEnforcer.get_snapshot_retention(2).derivation[0] == "enterprise requires 2 days"


def test_the_longest_legal_hold_of_a_project_counts_whatever_else_it_asks():
    governance = GovernanceConfig(
        enterprise=RetentionPolicy(snapshot_retention_days=900, legal_hold_days=30),
        product=RetentionPolicy(legal_hold_days=400, reason="case 12"),
    )
    hold = PolicyEnforcer.legal_hold_of(governance)
    assert hold == 400
    assert hold.derivation == (
        "the legal hold of enterprise requires 30 days",
        "the legal hold of product requires 400 days (case 12)",
    )


def test_a_project_without_a_legal_hold_has_none():
    assert PolicyEnforcer.legal_hold_of(GovernanceConfig(domain=RetentionPolicy(snapshot_retention_days=90))) is None


def test_the_derivation_survives_copying_and_pickling():
    days = PolicyEnforcer.get_snapshot_retention(30)
    for twin in (copy.copy(days), copy.deepcopy(days), pickle.loads(pickle.dumps(days))):  # noqa: S301 - our own bytes
        assert isinstance(twin, RetentionDays)
        assert (twin, twin.derivation) == (days, days.derivation)
