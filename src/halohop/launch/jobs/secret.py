"""The secret of a job: from the user's file, which only they may read, or a new one."""

import secrets

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.transport import TOKEN_VARIABLE, load_token


def secret_of(job: Job) -> str:
    """What all processes of a job have as HALOHOP_TOKEN. It goes into no plan, no log, no command line and no file of ours.

    Raises:
        InputError: the file cannot be read, others can read or write it, or what it holds is too short or not one line of text.
    """
    if job.token_file is None:
        return secrets.token_hex(32)
    token = load_token(job.token_file, env={})
    assert token is not None
    text = token.key.decode(errors="surrogateescape")
    if not text.isprintable():
        raise InputError(f"{job.token_file}: a token of a job must be one line of text, as processes get it in {TOKEN_VARIABLE}")
    return text
