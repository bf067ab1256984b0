"""Open the object store of a location."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from floe_core.declaration.locations import local_path
from floe_core.errors import CapabilityError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from floe_core.plugins.object_store import ObjectStore


class StoreLocation(NamedTuple):
    """The parts of a location.

    Attributes:
        scheme: URL scheme in lower case, ``file`` for a plain path.
        container: Bucket or container; empty for a local folder.
        account: Azure account, if the location names one.
        path: Path in the container without slashes around it; the whole path for a local folder.
    """

    scheme: str
    container: str
    account: str | None
    path: str

    @classmethod
    def parse(cls, location: str) -> StoreLocation:
        """Split a location without decoding it; PyIceberg and Hadoop do not decode locations either."""
        if (folder := local_path(location)) is not None:
            return cls("file", "", None, folder)
        scheme, _, rest = location.partition("://")
        host, _, path = rest.partition("/")
        container, _, account_host = host.partition("@")
        return cls(scheme.lower(), container, account_host.partition(".")[0] or None, path.strip("/"))


def open_store(location: str, properties: Mapping[str, str]) -> ObjectStore:
    """Open the object store of a location with PyIceberg's file properties; keys are relative to the location.

    With a storage plugin, use ``StoragePlugin.object_store()`` instead. If the properties contain no credentials, the
    provider's client uses those of the environment or the machine.

    Args:
        location: URI of a bucket, a container or a folder in one, or a local path.
        properties: PyIceberg's ``s3.…``, ``gcs.…`` or ``adls.…`` properties.

    Raises:
        CapabilityError: No provider supports the location's scheme; or the location has no bucket, is a local folder
            with a host, or is in another Azure storage account than the one of the properties.
        MissingDependencyError: The provider's client is not installed.
    """
    from floe_storage import azure, gcs, local, s3

    parsed = StoreLocation.parse(location)
    if parsed.scheme in local.SCHEMES:
        if parsed.container:
            # Without its host, the path would be a folder below the working directory.
            raise _unusable(location, "a local folder has no host", "file:///folder")
        return local.open_store(parsed, properties)
    openers = (
        (s3.SCHEMES, s3.open_store, "s3"),
        (gcs.SCHEMES, gcs.open_store, "gcs"),
        (azure.SCHEMES, azure.open_store, "azure"),
    )
    for schemes, opener, extra in openers:
        if parsed.scheme in schemes:
            if not parsed.container:
                raise _unusable(location, "it has no bucket", f"{parsed.scheme}://bucket/path")
            try:
                return opener(parsed, properties)
            except ImportError as err:
                what = f"An object store at {parsed.scheme}://{parsed.container}"
                raise MissingDependencyError(what, extra=extra) from err
    msg = f"floe does not support '{parsed.scheme}' locations."
    raise CapabilityError(msg, hint="Use a location on local, s3, gcs or azure storage.")


def _unusable(location: str, reason: str, example: str) -> CapabilityError:
    return CapabilityError(f"Cannot open an object store at '{location}': {reason}.", hint=f"Write it as {example}.")
