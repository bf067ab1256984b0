"""A floe project as a Dagster component, for projects declared in YAML.

.. code-block:: yaml

    type: floe_dagster.component.FloeProjectComponent
    attributes:
      project: ../..
      environment: prod
"""

from pathlib import Path

from dagster import Component, ComponentLoadContext, Definitions, Model, Resolvable
from pydantic import Field

from floe_core.compile import compile_project
from floe_dagster.definitions import create_definitions


class FloeProjectComponent(Component, Model, Resolvable):
    """All definitions of a floe project: assets on Iceberg tables, checks, schedules, resources and maintenance."""

    project: str = Field(default=".", description="Folder of floe.yaml, relative to the component's folder.")
    environment: str | None = Field(default=None, description="Environment in floe.yaml.")

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """Compile the project and return its definitions."""
        folder = Path(context.path, self.project).resolve()
        return create_definitions(compile_project(folder, environment=self.environment))
