"""Google Cloud Storage through Google's own client: emulators refuse obstore's writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import NotFound, PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials

from floe_tenancy.stores.base import RETRY_SECONDS, StoredObject, folder_prefix, store_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from floe_tenancy.config import BucketAddress

ANONYMOUS = "anon"
_TIMEOUT = (5, 60)
_RETRY = DEFAULT_RETRY.with_timeout(RETRY_SECONDS)


class GoogleObjectStore:
    """Objects of a Google Cloud Storage bucket."""

    def __init__(self, bucket: Any) -> None:  # noqa: ANN401 - google.cloud.storage is untyped
        """Wrap one of Google's buckets."""
        self._bucket = bucket

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that is not there yet."""
        try:
            self._bucket.blob(key).upload_from_string(
                content,
                content_type="application/json",
                if_generation_match=0,
                timeout=_TIMEOUT,
                retry=_RETRY,
            )
        except PreconditionFailed:
            return False
        except Exception as err:
            raise store_error(err, "write", key) from err
        return True

    def read(self, key: str) -> bytes | None:
        """Return an object's content, None when it is not there."""
        try:
            content: bytes = self._bucket.blob(key).download_as_bytes(timeout=_TIMEOUT, retry=_RETRY)
        except NotFound:
            return None
        except Exception as err:
            raise store_error(err, "read", key) from err
        return content

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List every object below a prefix."""
        try:
            blobs = self._bucket.list_blobs(prefix=folder_prefix(prefix), timeout=_TIMEOUT, retry=_RETRY)
            yield from (StoredObject(blob.name, blob.size) for blob in blobs)
        except Exception as err:
            raise store_error(err, "list", prefix) from err

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects one by one."""
        count = 0
        for key in keys:
            try:
                self._bucket.blob(key).delete(timeout=_TIMEOUT, retry=_RETRY)
            except NotFound:
                pass
            except Exception as err:
                raise store_error(err, "delete", key) from err
            count += 1
        return count


def open_gcs(address: BucketAddress, properties: Mapping[str, str]) -> GoogleObjectStore:
    """Open a bucket with PyIceberg's ``gcs.…`` properties; without a token, Google's default credentials."""
    token, endpoint = properties.get("gcs.oauth2.token"), properties.get("gcs.service.host")
    settings: dict[str, Any] = {"project": properties.get("gcs.project-id")}
    if endpoint:
        settings["client_options"] = {"api_endpoint": endpoint}
    if token == ANONYMOUS:
        # The client insists on a project even where nobody is billed.
        settings |= {"credentials": AnonymousCredentials(), "project": settings["project"] or "floe"}  # type: ignore[no-untyped-call]
    elif token and Path(token).is_file():
        # gcsfs takes a service account's key file in the token's place.
        settings["credentials"] = service_account.Credentials.from_service_account_file(token)  # type: ignore[no-untyped-call]
    elif token:
        settings |= {"credentials": Credentials(token), "project": settings["project"] or "floe"}  # type: ignore[no-untyped-call]
    return GoogleObjectStore(storage.Client(**settings).bucket(address.container))
