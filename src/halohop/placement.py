"""Where nodes are stored: how often they are read, placement by that, and replicas."""

from halohop.cluster.reading import read_replicas
from halohop.partitioning.assigners.dealing import place_at_random
from halohop.pyg.frequency import Frequency, place_by_hotness
from halohop.pyg.hotness import hotness
from halohop.pyg.share_near import NearShare, share_near

__all__ = [
    "Frequency",
    "NearShare",
    "hotness",
    "place_at_random",
    "place_by_hotness",
    "read_replicas",
    "share_near",
]
