"""Former import path of ``open_project``; use ``from floe_iceberg import open_project``."""

from floe_core.runtime.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {}, renamed={"open_project": "floe_iceberg.open_project"})
