"""Render failures as text or JSON, and choose the exit code."""

from __future__ import annotations

import errno
import sys
import traceback
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from floe_core.errors import (
    SYSTEM_ERROR,
    USER_ERROR,
    ConfigProblem,
    ConfigurationError,
    FloeStorageError,
    SchemaEvolutionError,
    StorageFullError,
)
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure, ready to print."""

    type: str
    message: str
    exit_code: int
    hint: str | None = None
    problems: tuple[ConfigProblem, ...] = ()

    def payload(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "ok": False,
            "error": {
                "type": self.type,
                "message": redact_text(self.message),
                "hint": redact_text(self.hint) if self.hint else None,
                "problems": [
                    {key: redact_text(value) if isinstance(value, str) else value for key, value in asdict(p).items()}
                    for p in self.problems
                ],
            },
        }

    def lines(self) -> list[str]:
        """Return the lines of the text output."""
        problems = [f"  {problem}" for problem in self.problems]
        hint = [f"Hint: {self.hint}"] if self.hint else []
        return [redact_text(line) for line in (f"Error: {self.message}", *problems, *hint)]


def show_failure(err: Exception, argv: Sequence[str], *, place: Mapping[str, str | None] | None = None) -> int:
    """Print a failure and return the exit code. JSON goes to standard output, text to standard error.

    Args:
        err: The exception.
        argv: The command line.
        place: Environment and catalog of the command.
    """
    failure = describe(err)
    if "--debug" in argv:
        sys.stderr.write(redact_text("".join(traceback.format_exception(err))))
    if wants_json(argv):
        from floe_cli.output import write_json

        write_json({"ok": False, **(place or {})} | failure.payload())
    else:
        sys.stderr.write("\n".join(failure.lines()) + "\n")
    return failure.exit_code


def describe(err: Exception) -> Failure:
    """Describe an exception and decide whether it is a user or a system error."""
    kind = type(err).__name__
    if isinstance(err, FloeStorageError):
        return Failure(kind, err.message, err.exit_code, err.hint, _problems(err))
    if isinstance(err, typer.TyperException):
        return _usage(err)
    if isinstance(err, typer.Abort):
        return Failure("Aborted", "Canceled. Nothing was changed.", USER_ERROR)
    if (full := _full_disk(err)) is not None:
        return Failure(
            StorageFullError.__name__, full, StorageFullError.exit_code, "Free some space, then run the command again."
        )
    reason = str(err) or kind
    message = reason if kind in reason else f"{kind}: {reason}"
    return Failure(
        kind, message, SYSTEM_ERROR, "This is an unexpected error. Run the command again with --debug for a traceback."
    )


def _full_disk(err: BaseException | None) -> str | None:
    """Describe a full disk reported by a library below floe, such as Dagster's run storage."""
    while err is not None:
        if getattr(err, "errno", None) in _FULL or "disk is full" in str(err):
            return f"The storage is full: {str(getattr(err, 'orig', err)).partition(chr(10))[0]}"
        err = err.__cause__ or err.__context__
    return None


def _problems(err: FloeStorageError) -> tuple[ConfigProblem, ...]:
    if isinstance(err, ConfigurationError):
        return err.problems
    if isinstance(err, SchemaEvolutionError):
        return tuple(ConfigProblem(message=str(mismatch), path=mismatch.column) for mismatch in err.mismatches)
    return ()


def _usage(err: typer.TyperException) -> Failure:
    """Describe a usage error. typer exits with 2 for it, but floe reserves 2 for system errors."""
    context = getattr(err, "ctx", None)
    message, hint = err.format_message(), f"See: {context.command_path} --help" if context else None
    if options := sorted(getattr(err, "possibilities", None) or ()):
        message, hint = err.message, f"Did you mean {' or '.join(options)}?"
    return Failure("UsageError", message.strip(), USER_ERROR, hint)


def wants_json(argv: Sequence[str]) -> bool:
    """Whether JSON output was requested. Scans the raw arguments because they may not parse."""
    for position, argument in enumerate(argv):
        if argument in {"--output=json", "-ojson"}:
            return True
        if argument in {"--output", "-o"} and list(argv[position + 1 : position + 2]) == ["json"]:
            return True
    return False
