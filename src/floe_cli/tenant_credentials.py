"""Hands tenants' credentials over, each before the next one is made: a secret is told once."""

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
    """A file of credentials, one JSON object per line, that only its owner may read."""

    def __init__(self, path: Path) -> None:
        """Open the file, before any credentials are made.

        Raises:
            ConfigurationError: It cannot be written, or others may read it.
        """
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        except OSError as err:
            msg = f"The credentials file {path} cannot be written: {err.strerror}."
            raise ConfigurationError(msg, hint="Name a file in a folder that you may write to.") from err
        if os.fstat(self._descriptor).st_mode & _OTHERS:
            self.close()
            msg = f"Others may read the credentials file {path}."
            raise ConfigurationError(msg, hint=f"Name another file, or run: chmod 600 {path}")

    def take(self, tenant: str, access: TenantAccess) -> None:
        """Write one tenant's credentials; they are on disk when this returns.

        Raises:
            StorageError: They could not be written; the tenant's credentials have to be made anew.
        """
        line = {"tenant": tenant, **_plain(access), "at": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            os.write(self._descriptor, (json.dumps(line) + "\n").encode())
            os.fsync(self._descriptor)
        except OSError as err:
            msg = f"The credentials of tenant '{tenant}' could not be written to {self._path}: {err.strerror}."
            hint = f"Make room, then run: floe tenants bootstrap {tenant} --isolate --rotate"
            raise StorageError(msg, hint=hint) from err

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def print_credentials(tenant: str, access: TenantAccess) -> None:
    """Print one tenant's credentials, for a person to copy; they are out when this returns."""
    found = _plain(access)
    print(f"{tenant}   client id {found['client_id']}   client secret {found['client_secret']}")  # noqa: T201 - told at once
    sys.stdout.flush()


def _plain(access: TenantAccess) -> dict[str, str | None]:
    secret = access.client_secret.get_secret_value() if access.client_secret else None
    return {"principal": access.principal, "client_id": access.client_id, "client_secret": secret}
