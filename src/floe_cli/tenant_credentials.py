"""Deliver tenant credentials one at a time: the catalog returns each secret only once."""

from __future__ import annotations

import json
import os
import stat
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from floe_tenancy import TenantAccess

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class CredentialsFile:
    """A credentials file, one JSON object per line, readable only by its owner."""

    def __init__(self, path: Path) -> None:
        """Open the file before any credentials are created.

        Raises:
            ConfigurationError: The file is not writable, or other users can read it.
        """
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        except OSError as err:
            msg = f"Cannot write the credentials file {path}: {err.strerror}."
            raise ConfigurationError(msg, hint="Choose a file in a folder you can write to.") from err
        if os.fstat(self._descriptor).st_mode & _OTHERS:
            self.close()
            msg = f"The credentials file {path} is accessible to other users."
            raise ConfigurationError(msg, hint=f"Choose another file, or run: chmod 600 {path}")

    def take(self, tenant: str, access: TenantAccess) -> None:
        """Write one tenant's credentials and flush them to disk.

        Raises:
            StorageError: The write failed; the tenant's credentials must be rotated.
        """
        line = {"tenant": tenant, **_plain(access), "at": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            os.write(self._descriptor, (json.dumps(line) + "\n").encode())
            os.fsync(self._descriptor)
        except OSError as err:
            msg = f"Cannot write the credentials of tenant '{tenant}' to {self._path}: {err.strerror}."
            hint = f"Free some space, then run: floe tenants bootstrap {tenant} --isolate --rotate"
            raise StorageError(msg, hint=hint) from err

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def print_credentials(tenant: str, access: TenantAccess) -> None:
    """Print one tenant's credentials and flush standard output."""
    found = _plain(access)
    print(f"{tenant}   client id {found['client_id']}   client secret {found['client_secret']}")  # noqa: T201 - must appear at once
    sys.stdout.flush()


def _plain(access: TenantAccess) -> dict[str, str | None]:
    secret = access.client_secret.get_secret_value() if access.client_secret else None
    return {"principal": access.principal, "client_id": access.client_id, "client_secret": secret}
