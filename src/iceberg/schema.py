"""Schema evolution of tenant tables under its documented name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_tenancy.evolution import EvolutionPlan, SchemaEvolutionManager

__all__ = ["EvolutionPlan", "SchemaEvolutionManager"]

_HOMES = {
    "EvolutionPlan": "floe_tenancy.evolution",
    "SchemaEvolutionManager": "floe_tenancy.evolution",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
