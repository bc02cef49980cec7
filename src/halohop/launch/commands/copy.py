"""`halohop launch copy`: partitions and other files for the hosts of a job."""

from halohop.launch.options import launching
from halohop.launch.terminal import logs


def copy(config: launching.PathOfJob, source: launching.PartsToCopy = None, python: launching.Python = None) -> None:
    """Copy partitions and scripts to the hosts of a job over ssh.

    Each host gets its partitions, and the files of [ssh.send]. If the command is stopped, run it again to resume.

    $ halohop launch copy --config job.toml

    $ halohop launch copy --config job.toml --source parts
    """
    from halohop.launch.jobs.job import read_job
    from halohop.launch.jobs.ssh.copying import copy as send

    send(read_job(config, {"python": python}, out="runs"), source, logs.people())
