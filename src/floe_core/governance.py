"""How long history is kept: every level of the organization can set a minimum; the strictest wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.schemas import GovernanceConfig, RetentionConfig, RetentionPolicy

DEFAULT_RETENTION_DAYS = 7

PolicyInput = RetentionPolicy | RetentionConfig | Mapping[str, object] | int | None


class RetentionDays(int):
    """A number of days with its derivation; use it like an ``int``."""

    _derivation: tuple[str, ...]

    def __new__(cls, days: int, derivation: tuple[str, ...] = ()) -> Self:
        """Attach the derivation to the number."""
        value = super().__new__(cls, days)
        value._derivation = tuple(derivation)
        return value

    @property
    def derivation(self) -> tuple[str, ...]:
        """The requirement of each level and the effective one; one line each."""
        return self._derivation

    def explain(self) -> str:
        """Return the derivation as readable text."""
        return "\n".join(self._derivation)


@dataclass(frozen=True, slots=True)
class _Requirement:
    source: str
    days: int
    line: str


class PolicyEnforcer:
    """Combines the requirements of all levels of the organization; it has no state."""

    @staticmethod
    def get_snapshot_retention(
        enterprise_policy: PolicyInput = None,
        domain_policy: PolicyInput = None,
        product_policy: PolicyInput = None,
        *,
        table_policy: PolicyInput = None,
    ) -> RetentionDays:
        """Return how many days snapshots must be kept: the longest minimum of all levels and legal holds.

        The default is seven days. A legal hold can only extend the retention: it never replaces the default.

        Args:
            enterprise_policy: The company's policy: a policy, a mapping, a number of days, or None.
            domain_policy: The policy of the business domain.
            product_policy: The policy of the data product.
            table_policy: The policy of the table, as its ``retention`` section.

        Raises:
            ConfigurationError: A policy is not valid.
        """
        policies = {
            level: _policy(level, given)
            for level, given in (
                ("enterprise", enterprise_policy),
                ("domain", domain_policy),
                ("product", product_policy),
                ("table", table_policy),
            )
        }
        return _strictest(policies)

    @staticmethod
    def retention_of(governance: GovernanceConfig, table: RetentionConfig | None = None) -> RetentionDays:
        """Return the effective retention of a table of a project."""
        return PolicyEnforcer.get_snapshot_retention(
            governance.enterprise, governance.domain, governance.product, table_policy=table
        )

    @staticmethod
    def legal_hold_of(governance: GovernanceConfig) -> RetentionDays | None:
        """Return the longest legal hold of a project; None if it has no legal hold."""
        levels = {"enterprise": governance.enterprise, "domain": governance.domain, "product": governance.product}
        holds = [hold for level, policy in levels.items() if (hold := _legal_hold(level, policy))]
        return RetentionDays(max(hold.days for hold in holds), tuple(hold.line for hold in holds)) if holds else None


def _strictest(policies: Mapping[str, RetentionPolicy]) -> RetentionDays:
    requirements = [requirement for level, policy in policies.items() if (requirement := _regular(level, policy))]
    if not requirements:
        line = f"no level sets a retention: the default is {_days(DEFAULT_RETENTION_DAYS)}"
        requirements = [_Requirement("the default", DEFAULT_RETENTION_DAYS, line)]
    requirements += [hold for level, policy in policies.items() if (hold := _legal_hold(level, policy))]
    longest = max(requirement.days for requirement in requirements)
    winners = " and ".join(requirement.source for requirement in requirements if requirement.days == longest)
    verdict = f"effective: {_days(longest)}, from {winners} (the strictest wins)"
    return RetentionDays(longest, (*(requirement.line for requirement in requirements), verdict))


def _regular(level: str, policy: RetentionPolicy) -> _Requirement | None:
    days = policy.snapshot_retention_days
    return None if days is None else _Requirement(level, days, f"{level} requires {_days(days)}{_reason(policy)}")


def _legal_hold(level: str, policy: RetentionPolicy) -> _Requirement | None:
    days = policy.legal_hold_days
    source = f"the legal hold of {level}"
    return None if days is None else _Requirement(source, days, f"{source} requires {_days(days)}{_reason(policy)}")


def _reason(policy: RetentionPolicy) -> str:
    return f" ({policy.reason})" if policy.reason else ""


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def _policy(level: str, given: PolicyInput) -> RetentionPolicy:
    if isinstance(given, RetentionPolicy):
        return given
    if isinstance(given, RetentionConfig):
        return RetentionPolicy(snapshot_retention_days=given.snapshot_days)
    if given is None:
        return RetentionPolicy()
    if isinstance(given, bool) or not isinstance(given, Mapping | int):
        msg = f"The {level} retention policy is {given!r}, which is neither a policy nor a number of days."
        raise ConfigurationError(msg, hint="Use a whole number of days, or {snapshot_retention_days: 30}.")
    fields = given if isinstance(given, Mapping) else {"snapshot_retention_days": int(given)}
    try:
        return RetentionPolicy.model_validate(fields)
    except ValidationError as err:
        problems = [
            ConfigProblem(path=".".join(map(str, (level, *problem["loc"]))), message=f"{level}: {_describe(problem)}")
            for problem in err.errors(include_url=False)
        ]
        msg = f"The {level} retention policy is not valid."
        raise ConfigurationError(msg, problems=problems) from err


def _describe(problem: Mapping[str, object]) -> str:
    where = ".".join(map(str, problem["loc"])) if isinstance(problem["loc"], tuple) else ""
    return f"{where} is {problem['input']!r}: {problem['msg']}"
