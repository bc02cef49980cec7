"""Into how many partitions graphs are divided, and whether each has a shard of its own behind the router."""

import pytest

DIVISIONS = [
    (1, False),
    (3, True),
    (8, True),
    *(pytest.param(*division, marks=pytest.mark.full) for division in ((1, True), (2, False), (2, True), (3, False), (8, False))),
]
"""Values of ("num_parts", "shard_each"). What differs from one partition to several shards differs for three of them, too."""
