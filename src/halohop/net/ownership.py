"""Which host is asked about which partition."""

from halohop.errors import ClusterError


def owners(found: list[tuple[int, ...]], num_parts: int, *, even: bool = True) -> list[tuple[int, ...]]:
    """Divides the partitions among the hosts that found them on their disks; where several did, evenly.

    Args:
        found: per host, the partitions in its folder.
        num_parts: how many there are.
        even: otherwise the first host has all that it found.

    Returns:
        Per host, the partitions it serves: each partition exactly once.

    Raises:
        ClusterError: no host holds a partition.

    Example:
        >>> owners([(0, 1, 2), (0, 1, 2)], 3)
        [(0, 2), (1,)]
    """
    served: list[list[int]] = [[] for _ in found]
    missing = []
    for part in range(num_parts):
        holders = [host for host, parts in enumerate(found) if part in parts]
        if holders:
            served[min(holders, key=lambda host: (even or host > 0, len(served[host]), host))].append(part)
        else:
            missing.append(part)
    if missing:
        held = {host: list(parts) for host, parts in enumerate(found)}
        raise ClusterError(
            f"partitions {missing} of {num_parts} are held by no host (host: partitions {held}); "
            "copy their part-* folders to a host, or start the hosts that have them"
        )
    return [tuple(parts) for parts in served]


def replicas(found: list[tuple[int, ...]], num_parts: int, *, even: bool = True) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Which hosts to ask about which partitions: the one that `owners` chose, then the others that have it, in turn.

    Args:
        found: per host, the partitions it serves.
        num_parts: how many there are.
        even: as of `owners`.

    Returns:
        Partitions by the hosts that have them, in the order in which these are asked.

    Raises:
        ClusterError: no host holds a partition.

    Example:
        >>> replicas([(0, 1), (1, 2), (1,)], 3)
        {(0,): (0,), (1, 2, 0): (1,), (1,): (2,)}
    """
    groups: dict[tuple[int, ...], tuple[int, ...]] = {}
    for host, served in enumerate(owners(found, num_parts, even=even)):
        for part in served:
            turned = [*range(host, len(found)), *range(host)]
            ranked = tuple(other for other in turned if part in found[other])
            groups[ranked] = (*groups.get(ranked, ()), part)
    return groups
