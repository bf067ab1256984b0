"""The object store for S3 and Azure, based on obstore; importing this module requires obstore."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from obstore.exceptions import AlreadyExistsError

from floe_core.plugins.object_store import StoredObject, folder_prefix
from floe_storage.store_errors import RETRY_SECONDS, store_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore.store import AzureStore, ClientConfig, RetryConfig, S3Store

# The most that S3 accepts in one request.
DELETE_BATCH = 1_000
RETRIES: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}


class ObstoreObjectStore:
    """Objects of an S3 bucket or an Azure container."""

    def __init__(self, store: S3Store | AzureStore) -> None:
        """Wrap one of obstore's stores."""
        self._store = store

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that does not exist yet."""
        try:
            self._store.put(key, content, mode="create")
        except AlreadyExistsError:
            return False
        except Exception as err:
            raise store_error(err, "write", key) from err
        return True

    def read(self, key: str) -> bytes | None:
        """Return an object's content, None if it does not exist."""
        try:
            return bytes(self._store.get(key).bytes())
        except FileNotFoundError:
            return None
        except Exception as err:
            raise store_error(err, "read", key) from err

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """List every object below a prefix."""
        folder = folder_prefix(prefix)
        try:
            for page in self._store.list(prefix=folder.rstrip("/") or None):
                for found in page:
                    # obstore matches whole path parts, so it also returns an object with the folder's own name.
                    if found["path"].startswith(folder):
                        yield StoredObject(found["path"], found["size"], found["last_modified"])
        except Exception as err:
            raise store_error(err, "list", prefix) from err

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects, many per request."""
        remaining, count = iter(keys), 0
        while batch := list(islice(remaining, DELETE_BATCH)):
            try:
                self._store.delete(batch)
            except FileNotFoundError:
                # One of them is already gone, which stops the batch.
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


def client_options(endpoint: str | None) -> ClientConfig:
    """Return time limits; plain HTTP is allowed only for an ``http://`` endpoint."""
    plain = bool(endpoint and endpoint.startswith("http://"))
    return {"allow_http": plain, "timeout": "60s", "connect_timeout": "5s"}
