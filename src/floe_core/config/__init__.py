"""Find, read and validate floe.yaml; errors carry their location in the file."""

from floe_core.config.document import find_project_file
from floe_core.config.editor_schema import json_schema
from floe_core.config.project import LoadedProject, load_project, load_with_places

__all__ = ["LoadedProject", "find_project_file", "json_schema", "load_project", "load_with_places"]
