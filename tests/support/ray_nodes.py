"""A cluster of Ray's on this machine, in a process of its own: `python -m tests.support.ray_nodes FOLDER NODES CPUS`.

Prints the address as a line of JSON, then answers commands with the raylets of all nodes but the first: "nodes" asks, "remove
PID" kills the node whose raylet that is, "add" starts one more. The end of its input ends the cluster. Ray's files go to the
folder: a short name, because they hold sockets.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def raylet(node: Any) -> int:
    """The process that keeps a node."""
    return int(node.all_processes["raylet"][0].process.pid)


def main(folder: str, nodes: int, cpus: int) -> None:
    """Keeps the cluster until standard input ends."""
    os.environ["RAY_TMPDIR"] = folder
    from ray.cluster_utils import Cluster

    small = {"num_cpus": cpus, "object_store_memory": 80 * 2**20}
    settings = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    (Path(folder) / "ray").mkdir()
    cluster = Cluster()
    cluster.add_node(include_dashboard=False, _system_config=settings | {"prestart_worker_first_driver": False}, **small)
    others = [cluster.add_node(**small) for _ in range(1, nodes)]
    print(json.dumps({"address": cluster.address}), flush=True)
    for line in sys.stdin:
        match line.split():
            case ["remove", pid]:
                gone = next(node for node in others if raylet(node) == int(pid))
                others.remove(gone)
                cluster.remove_node(gone, allow_graceful=False)
            case ["add"]:
                others.append(cluster.add_node(**small))
        print(json.dumps([raylet(node) for node in others]), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
