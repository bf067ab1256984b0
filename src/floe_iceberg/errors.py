"""Where PyIceberg's and Arrow's errors become floe's, once."""

from floe_core.errors import TableExistsError

TableAlreadyExistsError = TableExistsError
