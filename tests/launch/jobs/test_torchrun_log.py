import pytest

from halohop.launch.jobs.torchrun_log import lost_a_peer, rank_failure

REPORT = """W1122 17:44:34.801000 17871 torch/distributed/elastic/api.py:1028] Sending process 17934 closing signal SIGTERM
E1122 17:44:34.802000 17871 torch/distributed/elastic/api.py:1002] failed (exitcode: {code}) local_rank: 1 (pid: 17936)
Traceback (most recent call last):
  File "torch/distributed/run.py", line 1032, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_17:44:34
  rank      : 2 (local_rank: 0)
  exitcode  : -15 (pid: 17934)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_17:44:34
  host      : graph2
  rank      : 3 (local_rank: 1)
  exitcode  : {code} (pid: 17936)
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize("code", [1, -9])
def test_the_rank_is_that_of_the_root_cause_and_its_words_come_before_torchruns(code: int) -> None:
    found = rank_failure("epoch 1\nLookupError: no such luck\n" + REPORT.format(code=code))
    assert found is not None
    assert (found.rank, found.code, found.said) == (3, code, "epoch 1\nLookupError: no such luck")
    assert not found.lost_a_peer


@pytest.mark.parametrize(
    "last", ["halohop.errors.PeerLostError: host 1", "RuntimeError: [gloo] Connection closed by peer [10.0.0.7]:4711"]
)
def test_a_rank_that_lost_a_peer_is_known(last: str) -> None:
    found = rank_failure(f"{last}\n{REPORT.format(code=1)}")
    assert found is not None
    assert found.lost_a_peer


def test_what_is_no_report_of_torchruns_is_none() -> None:
    assert rank_failure("serving partitions 0\nKilled\n") is None
    assert rank_failure("") is None


def test_a_process_without_torchrun_that_lost_a_peer_is_known() -> None:
    assert lost_a_peer("torch.distributed.DistNetworkError: The client socket has timed out")
    assert not lost_a_peer("LookupError: no such luck")
