"""Files written with credentials that may expire at any time: staged locally, uploaded when complete."""

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
    """A file that is read and uploaded with the credentials that are valid at that time.

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
        """Create a reference to a file.

        Args:
            location: Address of the file.
            path: Its path within the file system.
            file_system: Returns a file system with currently valid credentials.
            retried: Runs an upload, and repeats it with new credentials if the store rejects the old ones.
        """
        self._path = path
        self._file_system = file_system
        self._retried = retried
        super().__init__(location, path, file_system())

    def _current_file(self) -> PyArrowFile:
        return PyArrowFile(self.location, self._path, self._file_system())

    def __len__(self) -> int:
        """Return the file's length in bytes."""
        return len(self._current_file())

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._current_file().exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Open the file for reading.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        return self._current_file().open(seekable)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Open a stream whose content is uploaded when it is closed.

        Raises:
            FileExistsError: The file exists and ``overwrite`` is not set.
        """
        if not overwrite and self.exists():
            msg = f"Cannot create file, already exists: {self.location}"
            raise FileExistsError(msg)
        return cast("OutputStream", StagedStream(self._upload))

    def _upload(self, content: IO[bytes]) -> None:
        def copy() -> None:
            content.seek(0)
            with self._file_system().open_output_stream(self._path) as target:
                shutil.copyfileobj(content, target, _COPY_BYTES)

        self._retried(copy)


class StagedStream(io.RawIOBase):
    """Buffers a file's content and uploads it when the stream is closed; an error discards the content."""

    def __init__(self, upload: Callable[[IO[bytes]], None]) -> None:
        """Start with an empty buffer."""
        super().__init__()
        self._upload = upload
        self._spool = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115 - closed by close()

    def writable(self) -> bool:
        """Whether the stream is writable; always true."""
        return True

    def write(self, data: object) -> int:
        """Append content to the buffer."""
        return self._spool.write(memoryview(data).cast("B"))  # type: ignore[arg-type]

    def tell(self) -> int:
        """Return the number of bytes written so far."""
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
        """Upload the content unless the block raised an error."""
        if kind is not None:
            self._upload = lambda _: None
        self.close()
