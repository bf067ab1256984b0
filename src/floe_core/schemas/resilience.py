"""How catalog calls are retried, interrupted and given up."""

from __future__ import annotations

from pydantic import Field

from floe_core.schemas.base import FrozenModel, Number, WholeNumber


class RetryConfig(FrozenModel):
    """Retry policy for catalog calls: exponential backoff with jitter, capped."""

    # With the waits below, a server that restarts is asked for about a minute.
    max_attempts: WholeNumber = Field(default=7, ge=1, le=10, description="Attempts in all, the first one included.")
    initial_wait_seconds: Number = Field(default=1.0, ge=0.1, le=30.0, description="Wait before the second attempt.")
    max_wait_seconds: Number = Field(default=30.0, ge=1.0, le=300.0, description="No wait is longer than this.")
    jitter_seconds: Number = Field(default=1.0, ge=0.0, le=10.0, description="Random time added to each wait.")


class CircuitBreakerConfig(FrozenModel):
    """When to stop calling a catalog that keeps failing."""

    enabled: bool = Field(default=True, description="Switch the breaker off with false.")
    failure_threshold: WholeNumber = Field(
        default=5, ge=1, le=100, description="Failures in a row that open the breaker."
    )
    reset_timeout_seconds: Number = Field(
        default=30.0, ge=0.1, le=3600.0, description="How long it stays open before one call may try again."
    )


class TimeoutConfig(FrozenModel):
    """Deadlines of every catalog call."""

    connect_seconds: Number = Field(default=5.0, gt=0, le=300.0, description="To open the connection.")
    read_seconds: Number = Field(default=30.0, gt=0, le=3600.0, description="Between two bytes of an answer.")
    total_seconds: Number = Field(default=120.0, gt=0, le=7200.0, description="For the call with all its retries.")
