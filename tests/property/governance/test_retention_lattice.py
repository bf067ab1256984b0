"""Retention is a lattice for any combination of levels."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floe_core.governance import PolicyEnforcer
from floe_core.schemas import RetentionPolicy

pytestmark = pytest.mark.req("RD-06", "TM-11")

LEVELS = ("enterprise", "domain", "product", "table")
days = st.none() | st.integers(0, 36500)
policies = st.builds(RetentionPolicy, snapshot_retention_days=days, legal_hold_days=days)


def settle(asked):
    *levels, table = asked
    return PolicyEnforcer.get_snapshot_retention(*levels, table_policy=table)


@given(st.lists(policies, min_size=4, max_size=4))
def test_never_shorter_than_any_level_asks(asked):
    result = settle(asked)
    for policy in asked:
        assert result >= (policy.snapshot_retention_days or 0)
        assert result >= (policy.legal_hold_days or 0)


@given(st.lists(policies, min_size=4, max_size=4))
def test_never_longer_than_the_longest_ask_or_the_default(asked):
    asks = [d for p in asked for d in (p.snapshot_retention_days, p.legal_hold_days) if d is not None]
    assert settle(asked) in {*asks, 7}


@given(st.lists(policies, min_size=4, max_size=4))
def test_the_order_of_levels_does_not_change_the_number(asked):
    assert len({int(settle(order)) for order in permutations(asked)}) == 1


@given(st.lists(policies, min_size=4, max_size=4), st.integers(0, 3), st.integers(0, 36500))
def test_asking_for_more_never_gives_less(asked, index, more):
    before = settle(asked)
    ordinary = asked[index].snapshot_retention_days
    # The first requested value replaces the default; after that, larger values extend the retention.
    asked[index] = asked[index].model_copy(update={"snapshot_retention_days": max(ordinary or before, more)})
    assert settle(asked) >= before


@given(st.lists(policies, min_size=4, max_size=4))
def test_the_explanation_is_complete(asked):
    result = settle(asked)
    *asks, verdict = result.derivation
    for level, policy in zip(LEVELS, asked, strict=True):
        said = [line for line in asks if line.startswith(f"{level} requires ")]
        held = [line for line in asks if line.startswith(f"the legal hold of {level} ")]
        assert len(said) == (policy.snapshot_retention_days is not None)
        assert len(held) == (policy.legal_hold_days is not None)
        if result in (policy.snapshot_retention_days, policy.legal_hold_days):
            assert level in verdict
    assert f"effective: {result} day" in verdict


@given(st.lists(policies, min_size=4, max_size=4))
def test_the_result_is_a_number_of_days(asked):
    result = settle(asked)
    assert isinstance(result, int)
    assert timedelta(days=result).days == int(result)
