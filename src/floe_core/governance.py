"""How long history is kept: every level of the organisation may ask, the strictest wins."""

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
    """A number of days that knows where it comes from; use it wherever an ``int`` of days goes."""

    _derivation: tuple[str, ...]

    def __new__(cls, days: int, derivation: tuple[str, ...] = ()) -> Self:
        """Attach the derivation to the number."""
        value = super().__new__(cls, days)
        value._derivation = tuple(derivation)
        return value

    @property
    def derivation(self) -> tuple[str, ...]:
        """Which level asked for what, and which one wins; one line each."""
        return self._derivation

    def explain(self) -> str:
        """Return the derivation as text for people."""
        return "\n".join(self._derivation)


@dataclass(frozen=True, slots=True)
class _Ask:
    who: str
    days: int
    line: str


class PolicyEnforcer:
    """Settles what the levels of the organisation ask for; it holds no state."""

    @staticmethod
    def get_snapshot_retention(
        enterprise_policy: PolicyInput = None,
        domain_policy: PolicyInput = None,
        product_policy: PolicyInput = None,
        *,
        table_policy: PolicyInput = None,
    ) -> RetentionDays:
        """Return the days snapshots must be kept: the longest minimum any level or legal hold asks for.

        Without any ask, seven days hold. A legal hold only ever lengthens: it never replaces that default.

        Args:
            enterprise_policy: What the company asks: a policy, its mapping, a number of days, or nothing.
            domain_policy: What the business domain asks.
            product_policy: What the data product asks.
            table_policy: What the table itself asks, as its ``retention`` section.

        Raises:
            ConfigurationError: A policy is no valid one.
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
        return _settle(policies)

    @staticmethod
    def retention_of(governance: GovernanceConfig, table: RetentionConfig | None = None) -> RetentionDays:
        """Return the days that hold for a table of a project."""
        return PolicyEnforcer.get_snapshot_retention(
            governance.enterprise, governance.domain, governance.product, table_policy=table
        )

    @staticmethod
    def legal_hold_of(governance: GovernanceConfig) -> RetentionDays | None:
        """Return the days that the longest legal hold of a project asks for; None without one."""
        levels = {"enterprise": governance.enterprise, "domain": governance.domain, "product": governance.product}
        holds = [hold for level, policy in levels.items() if (hold := _legal_hold(level, policy))]
        return RetentionDays(max(hold.days for hold in holds), tuple(hold.line for hold in holds)) if holds else None


def _settle(policies: Mapping[str, RetentionPolicy]) -> RetentionDays:
    asks = [ask for level, policy in policies.items() if (ask := _ordinary(level, policy))]
    if not asks:
        line = f"no level asks for a retention: the default is {_days(DEFAULT_RETENTION_DAYS)}"
        asks = [_Ask("the default", DEFAULT_RETENTION_DAYS, line)]
    asks += [hold for level, policy in policies.items() if (hold := _legal_hold(level, policy))]
    longest = max(ask.days for ask in asks)
    winners = " and ".join(ask.who for ask in asks if ask.days == longest)
    verdict = f"effective: {_days(longest)}, from {winners} (the strictest wins)"
    return RetentionDays(longest, (*(ask.line for ask in asks), verdict))


def _ordinary(level: str, policy: RetentionPolicy) -> _Ask | None:
    days = policy.snapshot_retention_days
    return None if days is None else _Ask(level, days, f"{level} asks for {_days(days)}{_because(policy)}")


def _legal_hold(level: str, policy: RetentionPolicy) -> _Ask | None:
    days = policy.legal_hold_days
    who = f"the legal hold of {level}"
    return None if days is None else _Ask(who, days, f"{who} asks for {_days(days)}{_because(policy)}")


def _because(policy: RetentionPolicy) -> str:
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
        raise ConfigurationError(msg, hint="Give days as a whole number, or {snapshot_retention_days: 30}.")
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
