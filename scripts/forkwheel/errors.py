"""Errors a user can act on: one class per failure, each with its own exit code."""

from __future__ import annotations


class ForkwheelError(Exception):
    """Base of every error that is shown to the user instead of a traceback.

    ``message`` names the file and line, or the two values that differ; ``hint``
    says what to do about it.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ForkwheelError):
    """The command line asks for something that does not exist or cannot be done."""

    exit_code = 2


class RecipeError(ForkwheelError):
    """A recipe, or a file that belongs to one, is malformed."""

    exit_code = 2


class FetchError(ForkwheelError):
    """A source could not be had."""

    exit_code = 3


class UnreachableError(FetchError):
    """The host of a source could not be reached, so the next source may be tried."""


class PinMismatchError(FetchError):
    """What arrived is not what the recipe pins."""


class PatchError(ForkwheelError):
    """A patch is malformed or does not apply exactly."""

    exit_code = 4


class BuildError(ForkwheelError):
    """A wheel could not be built."""

    exit_code = 5


class ToolchainError(ForkwheelError):
    """A compiler or another tool is missing or unfit."""

    exit_code = 6


class VerificationError(ForkwheelError):
    """An artefact is not what its record says."""

    exit_code = 7


class PublishError(ForkwheelError):
    """Wheels could not be published."""

    exit_code = 8


class GpuCheckError(ForkwheelError):
    """A check on a GPU failed."""

    exit_code = 9


class NoGpuError(ForkwheelError):
    """There is no GPU to check."""

    exit_code = 10


def host_error(error: OSError) -> ForkwheelError:
    """Describe what the operating system refused: a full disk, a missing permission, a folder in a file's place."""
    where = f"{error.filename}: " if error.filename is not None else ""
    return ForkwheelError(
        f"{where}{error.strerror or error}",
        hint="see that the disk has room and that the path can be written to; nothing was left half-written",
    )
