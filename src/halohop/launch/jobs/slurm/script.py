"""The batch script of a job: what a user of Slurm would write by hand, from its plan."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Data, Plan, Process, data_of, plan, resumes_itself
from halohop.launch.jobs.slurm import pieces
from halohop.launch.jobs.slurm.commands import Role, array, folded, markers, names_of, names_of_all, port_markers, role
from halohop.launch.jobs.slurm.options import Options
from halohop.launch.jobs.slurm.words import directive, quoted, word
from halohop.launch.terminal.wording import counted
from halohop.store.share import spelled

_RUN = 'env "${environment[@]}"'
_ROLES = {
    "fetch": "Brings its partitions to a host.",
    "server": "Holds a share of the graph.",
    "trainer": "One rank, in the environment that torchrun would give it.",
}
_NAMES = {"fetch": "fetch", "server": '"server-$SLURM_PROCID"', "trainer": '"rank-$SLURM_PROCID"'}
_RANK = (
    'RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_NTASKS" LOCAL_RANK="$SLURM_LOCALID"',
    'GROUP_RANK="$SLURM_NODEID" GROUP_WORLD_SIZE="$SLURM_NNODES"',
)


def log_of(job: Job) -> str:
    """Where the output of the batch script comes; sbatch puts the job's number for ``%j``."""
    return str(PurePosixPath(job.out.replace("%", "%%")) / "logs" / "slurm-%j.log")


def script(job: Job, options: Options) -> str:
    """The batch script of a job.

    Args:
        job: its hosts are taken as Slurm gives them, or as named.
        options: what Slurm is asked for.

    Raises:
        InputError: a value that sbatch or bash cannot read, or more replicas than servers.
    """
    hosts, servers = markers(job.num_hosts), job.servers
    chosen = servers is not None and not servers.port
    free = port_markers(servers.count or len(servers.shares) or 1) if servers is not None and chosen else ()
    made = plan(job, hosts, ports=dict.fromkeys(hosts, free) if chosen else None)
    roles = _roles(made)
    variables = ["hosts", "python", "environment", "out", "logs", "ends"]
    variables += ["port"] if chosen else []
    variables += [*(["addresses", "graph"] if made.servers else ()), *(["resume"] if resumes_itself(job) else ())]
    arrays = {name: elements for found in roles.values() for name, elements in found.arrays.items()}
    text = [
        _head(job, options),
        _settings(options),
        "\n".join([*_names(made), *(line for name, elements in arrays.items() for line in array(name, elements))]),
        pieces.BEGIN.format(restarts=options.restarts),
        *([pieces.RESUME] if resumes_itself(job) else ()),
        pieces.PROCESS,
        *(_function(name, found, made) for name, found in roles.items()),
        pieces.STEPS.format(variables=" ".join([*variables, *arrays]), restarts=options.restarts),
        pieces.STOPPING,
        *_steps(made, options, roles),
        pieces.ENDING,
    ]
    return "\n\n".join(text) + "\n"


def _head(job: Job, options: Options) -> str:
    """The lines that sbatch reads."""
    asked = {
        "job-name": job.name,
        "nodes": job.num_hosts,
        "nodelist": None if isinstance(job.hosts, int) else ",".join(job.hosts),
        "ntasks-per-node": job.trainers,
        "cpus-per-task": options.cpus_per_task,
        "gpus-per-node": options.gpus_per_node,
        "mem": options.mem,
        "partition": options.partition,
        "account": options.account,
        "time": options.time,
        "chdir": job.folder,
        "output": log_of(job),
        "open-mode": "append",
        "signal": f"B:USR1@{options.signal}" if options.signal else None,
    }
    lines = ["#!/bin/bash", f"# {job.name}: {counted(job.num_hosts, 'host')} with {counted(job.trainers, 'trainer')} each"]
    lines += [directive(name, value) for name, value in asked.items() if value is not None]
    lines.append("#SBATCH --requeue" if options.restarts else "#SBATCH --no-requeue")
    return "\n".join([*lines, *(f"#SBATCH {option}" for option in options.options)])


def _settings(options: Options) -> str:
    if not options.before:
        return "set -euo pipefail"
    return "\n".join(
        ["set -e", *options.before, "set -uo pipefail  # from here on: many modules read variables that are not set"]
    )


def _names(made: Plan) -> list[str]:
    """The variables of the script."""
    job, known = made.job, names_of_all(made)
    chosen = not job.master_port or (job.servers is not None and not job.servers.port)
    secret, check = "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')", []
    if job.token_file is not None:
        secret, check = f"$(< {quoted(job.token_file)})", [pieces.TOKEN.format(file=quoted(job.token_file))]
    lines = [
        'mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        *([pieces.PORT] if chosen else ()),
        f'export MASTER_ADDR="${{hosts[0]}}" MASTER_PORT={job.master_port or "$port"} PYTHONUNBUFFERED=1',
        *check,
        f"HALOHOP_TOKEN={secret}",
        "export HALOHOP_TOKEN",
        f"python={quoted(job.python)}",
        *array("environment", [quoted(text) for text in _environment(made)]),
        f"out={quoted(job.out)}",
        'logs="$out/logs" ends="$out/logs/ends-$SLURM_JOB_ID"',
    ]
    if made.servers:
        lines += array("addresses", [word(server.address, known) for server in made.servers])
        lines.append('graph=$(IFS=,; echo "${addresses[*]}")')
    return lines


def _roles(made: Plan) -> dict[str, Role]:
    """The command lines of each function of the script, by its name."""
    groups: dict[str, Sequence[tuple[Process, Sequence[str]]]] = {
        "fetch": [(process, _fetch(data)) for process, data in _copied(made)],
        "server": [(process, process.argv) for process in made.servers],
        "trainer": [(process, process.argv) for process in made.trainers],
    }
    return {
        name: _role(name, [(process, argv, names_of(process, made)) for process, argv in group], _environment(made))
        for name, group in groups.items()
        if group
    }


def _role(name: str, group: Sequence[tuple[Process, Sequence[str], dict[str, str]]], same: Sequence[str]) -> Role:
    """A role's own values of the environment, without what is the `same` for all processes, its interpreter and its words."""
    names = [known for _, _, known in group]
    own = role(f"{name}_env", [_assigned(process, same) for process, _, _ in group], names)
    main = role(name, [argv for _, argv, _ in group], names)
    return Role(words=(*own.words, '"$python"', *main.words), arrays={**own.arrays, **main.arrays})


def _assigned(process: Process, without: Sequence[str] = ()) -> list[str]:
    return [text for name, value in process.env.items() if (text := f"{name}={value}") not in without]


def _environment(made: Plan) -> list[str]:
    """The environment that all processes have, whatever their hosts are."""
    first, *others = [_assigned(process) for process in made.processes]
    return [text for text in first if all(text in each for each in others) and not any(host in text for host in made.hosts)]


def _copied(made: Plan) -> list[tuple[Process, Data]]:
    """A process of each host to which partitions are copied, and what all of the host need."""
    first = {process.host: process for process in reversed(made.processes)}
    needed = [(first[host], data_of(made, host)) for host in made.hosts]
    return [(process, data) for process, data in needed if data is not None and data.copied]


def _fetch(data: Data) -> tuple[str, ...]:
    share = ("--share", spelled(data.shares)) if data.shares else ()
    return ("-m", "halohop", "fetch", data.source, data.folder, *share)


def _function(name: str, found: Role, made: Plan) -> str:
    """A function of the script: what each process of a role does."""
    number = "SLURM_NODEID" if name != "server" else "SLURM_PROCID"
    words, indexed = list(found.words), found.uses("address") or bool(found.arrays)
    lines = [f"# {_ROLES[name]}", f"{name}() {{"]
    lines += [f"  local k=${number}"] if indexed else []
    lines += ['  local host="${hosts[SLURM_NODEID]}"'] if found.uses("host") else []
    lines += ['  local address="${addresses[k]}"'] if found.uses("address") else []
    if name == "trainer":
        lines += [*(f"  export {each}" for each in _RANK), f"  export LOCAL_WORLD_SIZE={made.job.trainers}"]
        lines += [pieces.GLOO] if made.job.run else []  # `halohop train` finds it itself
        words += ['"${resume[@]}"'] if resumes_itself(made.job) else []
    return "\n".join([*lines, *folded([f"  process {_NAMES[name]} {_RUN}", *words], indent="    ", end=" \\"), "}"])


def _steps(made: Plan, options: Options, roles: Mapping[str, Role]) -> list[str]:
    """How the processes are started, and awaited."""
    job, found = made.job, []
    if "fetch" in roles:
        hosts = len(_copied(made))
        found.append("\n".join([*_step("fetch", hosts, hosts, options, job), pieces.FETCHED]))
    if made.servers:
        hosts = len({server.host for server in made.servers})
        flags = ("--overlap", "--distribution=cyclic")
        step = _step("server", hosts, len(made.servers), options, job, *flags, '2>> "$logs/servers.log"')
        found.append("\n".join(step))
    step = _step("trainer", job.num_hosts, job.num_hosts * job.trainers, options, job, "--distribution=block")
    found.append("\n".join([*step, pieces.SERVED if made.servers else "await"]))
    return found


def _step(name: str, hosts: int, tasks: int, options: Options, job: Job, *more: str) -> list[str]:
    """The command that starts a job step."""
    each = -(-tasks // hosts)
    words = ["step", name, "--relative=0", f"--nodes={hosts}", f"--ntasks={tasks}", f"--ntasks-per-node={each}"]
    if options.cpus_per_task is not None:  # all cores that the trainers of a host have
        words.append(f"--cpus-per-task={max(options.cpus_per_task * job.trainers // each, 1)}")
    others_go_on = name == "server" and job.servers is not None and job.servers.replicas > 1
    words += [f"--kill-on-bad-exit={0 if others_go_on else 1}", *more, "&"]
    return folded(words, indent="  ", end=" \\")
