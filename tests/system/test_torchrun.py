"""`halohop train` on hosts that torchrun brings together."""

import json

import pytest


@pytest.mark.full  # tests/launch/runs/test_runs.py has ranks of one host, tests/recipes hosts with folders of their own
def test_three_hosts_train_together(network, folders, tmp_path):
    agents = [
        host.start(
            *("-m", "torch.distributed.run", "--nnodes", 3, "--node-rank", rank, "--nproc-per-node", 1),
            *("--master-addr", network[0].address, "--master-port", 29666),
            *("-m", "halohop", "train", folder, "--epochs", 8, "--batch-size", 32, "--out", tmp_path / f"run-{rank}"),
            env={"HALOHOP_TOKEN": "a secret of these tests only", "GLOO_SOCKET_IFNAME": "eth0"},
        )
        for rank, (host, folder) in enumerate(zip(network[:3], folders, strict=True))
    ]
    for agent in agents:
        _, err = agent.communicate(timeout=150)
        assert agent.returncode == 0, err
    events = [json.loads(line) for line in (tmp_path / "run-0" / "metrics.jsonl").read_text().splitlines()]
    start, end = events[0], events[-1]
    assert (start["hosts"], start["ranks"], start["partitions"]) == (3, 3, 3)
    assert end["test_accuracy"] > 0.5
    remote_share = next(event["remote_share"] for event in events if event["event"] == "epoch")
    assert 0.4 < remote_share < 0.9  # two of three partitions are elsewhere
