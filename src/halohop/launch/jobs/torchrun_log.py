"""What torchrun prints when a rank fails: which one it was, and where the rank's own words end."""

import re
from dataclasses import dataclass

from halohop.launch.processes.failures import TAIL_LINES

_AGENT = re.compile(r"^[A-Z]\d{4} [\d:.]+ \d+ torch/distributed/elastic/", re.MULTILINE)
"""A line of torchrun's own; ranks print theirs before, as long as none has failed."""

_RANK = re.compile(r"Root Cause.*?rank +: (\d+) \(local_rank: (\d+)\)\s+exitcode +: (-?\d+)", re.DOTALL)
_PEER_LOST = re.compile(
    r"PeerLostError|Connection (closed|reset) by|Connection was likely closed|Broken pipe|DistBackendError|DistNetworkError|"
    r"remote process exited|Socket (Timeout|closed)|gloo.*(timed out|Timed out)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """The rank that failed first under one torchrun.

    Args:
        rank: its number among all.
        code: its exit code, as `subprocess` counts: negative for a signal.
        said: the end of what the ranks of this torchrun printed.
    """

    rank: int
    code: int
    said: str

    @property
    def lost_a_peer(self) -> bool:
        """Whether it seems to have failed only because another one had."""
        return lost_a_peer(self.said)


def lost_a_peer(said: str) -> bool:
    """Whether a process seems to have failed only because another one had, by the end of what it printed."""
    return _PEER_LOST.search(said) is not None


def rank_failure(log: str) -> RankFailure | None:
    """The failure that a log of torchrun reports; None where it reports none.

    Example:
        >>> log = '''no such luck
        ... E1122 17:44:34.802000 17871 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1
        ... Root Cause (first observed failure):
        ...   rank      : 3 (local_rank: 1)
        ...   exitcode  : 1 (pid: 17936)'''
        >>> rank_failure(log)
        RankFailure(rank=3, code=1, said='no such luck')
    """
    cause, agent = _RANK.search(log), _AGENT.search(log)
    if cause is None or agent is None:
        return None
    said = log[: agent.start()].rstrip().splitlines()[-TAIL_LINES:]
    return RankFailure(rank=int(cause[1]), code=int(cause[3]), said="\n".join(said))
