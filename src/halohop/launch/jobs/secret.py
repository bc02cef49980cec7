"""The secret of a job: from the user's file, which only they may read, or a new one."""

import secrets
from pathlib import Path

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.transport import Token

_OTHERS = 0o077


def secret_of(job: Job) -> str:
    """What all processes of a job have as HALOHOP_TOKEN. It goes into no plan, no log, no command line and no file of ours.

    Raises:
        InputError: the file cannot be read, others may read it, or what it holds is too short.
    """
    if job.token_file is None:
        return secrets.token_hex(32)
    path = Path(job.token_file)
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the token file {path} cannot be read: {error}") from error
    if mode & _OTHERS:
        raise InputError(f"others can read the token in {path} (mode {mode & 0o777:o}); make a new one, and chmod 600 {path}")
    try:
        Token(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return text
