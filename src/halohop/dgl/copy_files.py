"""DGL's `tools/copy_files.py`: `python -m halohop.dgl.copy_files` takes its options and runs `halohop launch copy`."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from halohop.datasets import read_part_config
from halohop.dgl.launch import options, partitions, read_ip_config, ssh_hosts
from halohop.job_file import launch


def job_table(given: Namespace) -> dict[str, Any]:
    """The job whose hosts get the files, as a job file has it.

    Raises:
        FileNotFoundError: there is no ip_config.
        InputError: a line of it cannot work, or the partitions are not halohop's.
    """
    hosts = read_ip_config(Path(given.ip_config))
    read_part_config(given.part_config)
    workspace = Path.cwd() / Path(given.workspace).expanduser()
    scripts = given.script_folder + "/." * (Path(given.script_folder).resolve() == workspace.resolve())  # not into itself
    return {
        "engine": "ssh",
        "hosts": [*hosts],
        "train": {},
        "folder": str(workspace),
        "data": str(workspace / given.rel_data_path),
        "ssh": {
            "hosts": ssh_hosts(hosts, given),
            "send": {".": [scripts, given.ip_config], given.rel_data_path: partitions(given.part_config)[1]},
        },
    }


def main() -> None:
    """Runs the command."""
    parser = options("Copy partitions and scripts to the hosts of an ip_config.txt.")
    parser.add_argument("--rel_data_path", required=True, help="Folder for the partitions, below the workspace.")
    parser.add_argument("--script_folder", required=True, help="Local folder with the scripts, which keeps its name.")
    source, _ = partitions(parser.parse_known_args()[0].part_config)
    launch(parser, job_table, sys.argv[1:], "copy", "--source", str(source))


if __name__ == "__main__":
    main()
