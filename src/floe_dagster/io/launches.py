"""Run configuration of a resource: a run changes only the fields that it sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster import Field, Shape

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def schema_of_launch(schema: Any, values: Mapping[str, Any], *, unset: Collection[str]) -> Any:  # noqa: ANN401 - Dagster does not export its type
    """Return a resource's configuration schema with the resource's own values as the defaults of its fields.

    Args:
        schema: The schema, with the defaults of the resource's class.
        values: The resource's own values, as configuration.
        unset: Fields to keep without a default, so that it can be recognized whether a run sets them.
    """
    whole = schema.as_field()
    fields = {name: _field(name, field, values, unset) for name, field in whole.config_type.fields.items()}
    return type(schema)(
        Field(
            Shape(fields, description=whole.config_type.description),  # type: ignore[no-untyped-call] # Dagster's
            default_value=dict(values),
            is_required=False,
            description=whole.description,
        )
    )


def _field(name: str, field: Field, values: Mapping[str, Any], unset: Collection[str]) -> Field:
    if name in unset:
        return Field(field.config_type, is_required=False, description=field.description)
    if name not in values:
        return field
    return Field(field.config_type, default_value=values[name], is_required=False, description=field.description)
