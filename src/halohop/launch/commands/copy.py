"""`halohop launch copy`: DGL's `copy_files`."""

from halohop.launch.options import dgl, launching
from halohop.launch.terminal import logs


def copy(
    ip_config: dgl.IpConfigHere,
    workspace: dgl.WorkspaceToFill,
    rel_data_path: dgl.RelDataPath,
    part_config: dgl.PartConfigHere,
    script_folder: dgl.ScriptFolder,
    ssh_port: dgl.SshPort = None,
    ssh_username: dgl.SshUserName = None,
    python: launching.Python = None,
) -> None:
    """Copy partitions and scripts to hosts, like DGL's copy_files.

    Use it before halohop launch --workspace. If the command is stopped, run it again to resume.

    \b
    $ halohop launch copy --ip_config ip_config.txt --workspace /scratch/sage \\
        --rel_data_path data --part_config data/graph.json --script_folder scripts
    """
    from halohop.launch.jobs.dgl_copy import CopyOptions, hosts_job, parcels
    from halohop.launch.jobs.ssh.copying import copy as send
    from halohop.launch.jobs.ssh.hosts import hosts_of

    options = CopyOptions(
        ip_config=ip_config,
        workspace=workspace,
        rel_data_path=rel_data_path,
        part_config=part_config,
        script_folder=script_folder,
    )
    found = parcels(options)
    settings, hosts = hosts_of(hosts_job(found, python=python, user=ssh_username, port=ssh_port))
    named = {entry.host: some for entry, some in found.items()}
    send(settings, hosts, named, logs.people())
