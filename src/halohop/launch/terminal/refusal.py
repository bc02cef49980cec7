"""Errors that have exit codes of their own; in a module of their own, so that commands know them without importing torch."""

from halohop.errors import ClusterError, HalohopError, InputError

_EXIT_FAILED, _EXIT_REFUSED = 1, 2


class RefusedError(HalohopError):
    """A run cannot work, and nothing of it was started; the cause says more."""


class JobFailedError(ClusterError):
    """A job of a cluster has failed; the command that waited for it ends with the job's exit code."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def exit_code(error: HalohopError) -> int:
    """The exit code of a command that an error ends; see `Commands`."""
    if isinstance(error, JobFailedError):
        return error.exit_code
    return _EXIT_REFUSED if isinstance(error, InputError | RefusedError) else _EXIT_FAILED
