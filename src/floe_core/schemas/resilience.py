"""Retries, timeouts and the circuit breaker of catalog calls."""

from __future__ import annotations

from pydantic import Field

from floe_core.schemas.base import FrozenModel, Number, WholeNumber


class RetryConfig(FrozenModel):
    """Retry policy for catalog calls: exponential backoff with jitter, capped."""

    # With the delays below, calls to a restarting server are retried for about a minute.
    max_attempts: WholeNumber = Field(
        default=7, ge=1, le=10, description="Total number of attempts, including the first."
    )
    initial_wait_seconds: Number = Field(default=1.0, ge=0.1, le=30.0, description="Delay before the second attempt.")
    max_wait_seconds: Number = Field(default=30.0, ge=1.0, le=300.0, description="Maximum delay between attempts.")
    jitter_seconds: Number = Field(default=1.0, ge=0.0, le=10.0, description="Maximum random time added to each delay.")


class CircuitBreakerConfig(FrozenModel):
    """When to stop calling a catalog that keeps failing."""

    enabled: bool = Field(default=True, description="Set to false to disable the breaker.")
    failure_threshold: WholeNumber = Field(
        default=5, ge=1, le=100, description="Consecutive failures that open the breaker."
    )
    reset_timeout_seconds: Number = Field(
        default=30.0,
        ge=0.1,
        le=3600.0,
        description="How long the breaker stays open before one call may test the catalog.",
    )


class TimeoutConfig(FrozenModel):
    """Deadlines for every catalog call."""

    connect_seconds: Number = Field(default=5.0, gt=0, le=300.0, description="Time limit to open the connection.")
    read_seconds: Number = Field(
        default=30.0, gt=0, le=3600.0, description="Time limit between two bytes of a response."
    )
    total_seconds: Number = Field(
        default=120.0, gt=0, le=7200.0, description="Time limit for the call with all its retries."
    )
