"""S3 and Azure through obstore."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from obstore.exceptions import AlreadyExistsError
from obstore.store import AzureStore, S3Store

from floe_tenancy.stores.base import RETRY_SECONDS, StoredObject, folder_prefix, store_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from obstore.store import ClientConfig, RetryConfig

    from floe_tenancy.config import BucketAddress

# What S3 takes in one request.
DELETE_BATCH = 1_000
_RETRY: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}


class ArrowObjectStore:
    """Objects of an S3 bucket or an Azure container."""

    def __init__(self, store: S3Store | AzureStore) -> None:
        """Wrap one of obstore's stores."""
        self._store = store

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that is not there yet."""
        try:
            self._store.put(key, content, mode="create")
        except AlreadyExistsError:
            return False
        except Exception as err:
            raise store_error(err, "write", key) from err
        return True

    def read(self, key: str) -> bytes | None:
        """Return an object's content, None when it is not there."""
        try:
            return bytes(self._store.get(key).bytes())
        except FileNotFoundError:
            return None
        except Exception as err:
            raise store_error(err, "read", key) from err

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List every object below a prefix."""
        folder = folder_prefix(prefix)
        try:
            for page in self._store.list(prefix=folder.rstrip("/") or None):
                # obstore matches whole path parts; an object with the folder's own name is none of its own.
                yield from (StoredObject(m["path"], m["size"]) for m in page if m["path"].startswith(folder))
        except Exception as err:
            raise store_error(err, "list", prefix) from err

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects, many at a time."""
        remaining, count = iter(keys), 0
        while batch := list(islice(remaining, DELETE_BATCH)):
            try:
                self._store.delete(batch)
            except FileNotFoundError:
                # Somebody else was quicker with one of them; the others go one by one.
                self._delete_each(batch)
            except Exception as err:
                raise store_error(err, "delete", batch[0]) from err
            count += len(batch)
        return count

    def _delete_each(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                self._store.delete(key)
            except FileNotFoundError:
                continue
            except Exception as err:
                raise store_error(err, "delete", key) from err


def open_s3(address: BucketAddress, properties: Mapping[str, str]) -> ArrowObjectStore:
    """Open a bucket with PyIceberg's ``s3.…`` properties; without keys, those of the environment or machine."""
    settings: dict[str, Any] = {
        "endpoint": properties.get("s3.endpoint"),
        "region": properties.get("s3.region") or properties.get("client.region"),
        "access_key_id": properties.get("s3.access-key-id"),
        "secret_access_key": properties.get("s3.secret-access-key"),
        "session_token": properties.get("s3.session-token"),
    }
    known = {key: value for key, value in settings.items() if value}
    if "endpoint" in known:
        known["virtual_hosted_style_request"] = False
    limits = _limits(known.get("endpoint"))
    return ArrowObjectStore(S3Store(address.container, client_options=limits, retry_config=_RETRY, **known))


def open_azure(address: BucketAddress, properties: Mapping[str, str]) -> ArrowObjectStore:
    """Open a container with PyIceberg's ``adls.…`` properties; a connection string brings all of them."""
    pairs = [part.partition("=") for part in properties.get("adls.connection-string", "").split(";")]
    given = {name.lower(): value for name, _, value in pairs}
    settings: dict[str, Any] = {
        "endpoint": given.get("blobendpoint"),
        "account_name": given.get("accountname") or properties.get("adls.account-name") or address.account,
        "account_key": given.get("accountkey") or properties.get("adls.account-key"),
        "sas_key": given.get("sharedaccesssignature") or properties.get("adls.sas-token"),
        "tenant_id": properties.get("adls.tenant-id"),
        "client_id": properties.get("adls.client-id"),
        "client_secret": properties.get("adls.client-secret"),
    }
    known = {key: value for key, value in settings.items() if value}
    limits = _limits(known.get("endpoint"))
    return ArrowObjectStore(AzureStore(address.container, client_options=limits, retry_config=_RETRY, **known))


def _limits(endpoint: str | None) -> ClientConfig:
    plain = bool(endpoint and endpoint.startswith("http://"))
    return {"allow_http": plain, "timeout": "60s", "connect_timeout": "5s"}
