"""Files written with credentials that may end at any time: staged on this machine, uploaded when they are whole."""

from __future__ import annotations

import io
import shutil
import tempfile
from typing import IO, TYPE_CHECKING, cast

from pyiceberg.io.pyarrow import PyArrowFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyarrow.fs import FileSystem
    from pyiceberg.io import InputStream, OutputStream

# Metadata stays in memory; data files go to the temporary folder.
_MEMORY_BYTES = 16 * 1024**2
_COPY_BYTES = 8 * 1024**2


class StagedFile(PyArrowFile):
    """A location whose reads, and whose upload, use the file system of that moment.

    Iceberg's Java client stages S3 uploads in the same way.
    """

    def __init__(
        self,
        location: str,
        path: str,
        *,
        file_system: Callable[[], FileSystem],
        retried: Callable[[Callable[[], None]], None],
    ) -> None:
        """Name the place.

        Args:
            location: Address of the file.
            path: Its path within the file system.
            file_system: Returns the file system with credentials that hold now.
            retried: Runs an upload, once more with new credentials when the store refuses those it had.
        """
        self._place = path
        self._current = file_system
        self._retried = retried
        super().__init__(location, path, file_system())

    def _now(self) -> PyArrowFile:
        return PyArrowFile(self.location, self._place, self._current())

    def __len__(self) -> int:
        """Return the file's length in bytes."""
        return len(self._now())

    def exists(self) -> bool:
        """Tell whether there is a file."""
        return self._now().exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Open the file for reading.

        Raises:
            FileNotFoundError: There is no such file.
        """
        return self._now().open(seekable)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Open a stream whose content is uploaded when it is closed.

        Raises:
            FileExistsError: The file is there and may not be overwritten.
        """
        if not overwrite and self.exists():
            msg = f"Cannot create file, already exists: {self.location}"
            raise FileExistsError(msg)
        return cast("OutputStream", StagedStream(self._upload))

    def _upload(self, content: IO[bytes]) -> None:
        def copy() -> None:
            content.seek(0)
            with self._current().open_output_stream(self._place) as target:
                shutil.copyfileobj(content, target, _COPY_BYTES)

        self._retried(copy)


class StagedStream(io.RawIOBase):
    """Collects a file's content and hands it over when it is whole; after an error there is nothing to hand over."""

    def __init__(self, upload: Callable[[IO[bytes]], None]) -> None:
        """Begin with nothing."""
        super().__init__()
        self._upload = upload
        self._spool = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115 - closed by close()

    def writable(self) -> bool:
        """Whether it can be written: yes."""
        return True

    def write(self, data: object) -> int:
        """Add content."""
        return self._spool.write(memoryview(data).cast("B"))  # type: ignore[arg-type]

    def tell(self) -> int:
        """Bytes written so far."""
        return self._spool.tell()

    def close(self) -> None:
        """Upload the content."""
        if self.closed:
            return
        try:
            self._upload(cast("IO[bytes]", self._spool))
        finally:
            self._spool.close()
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Upload the content, unless its making failed."""
        if kind is not None:
            self._upload = lambda _: None
        self.close()
