"""`halohop launch copy`: partitions and other files for the hosts of a job."""

from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.jobs.job import Job, read_job
from halohop.launch.options.fields import field_option
from halohop.launch.terminal import logs


def copy(
    config: Annotated[Path, typer.Option(metavar="FILE", help="TOML or YAML file of the job.", show_default=False)],
    source: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Local folder of the partitions. They are copied to where the job's hosts read them.",
            show_default="data of the job, to its cache",
        ),
    ] = None,
    python: Annotated[str | None, field_option(Job, "python", only_given=True).info] = None,
) -> None:
    """Copy partitions and scripts to the hosts of a job over ssh.

    Each host gets its partitions, and the files of [ssh.send]. If the command is stopped, run it again to resume.

    $ halohop launch copy --config job.toml

    $ halohop launch copy --config job.toml --source parts
    """
    from halohop.launch.jobs.ssh.copying import copy as send

    send(read_job(config, {"python": python}, out="runs"), source, logs.people())
