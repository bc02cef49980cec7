"""`graphlearn_torch.utils.units`."""

import re

from halohop import memory


def parse_size(sz: str | int | float) -> int:
    """The bytes that a size means; K, KB, M, MB, G, GB are powers of 1024, as in GLT.

    Raises:
        InputError: it is no size.

    Example:
        >>> parse_size("64MB"), parse_size("1G"), parse_size(4096)
        (67108864, 1073741824, 4096)
    """
    text = str(int(sz) if isinstance(sz, float) else sz)
    return memory.parse_size(re.sub(r"(?<=[kmgt])b$|(?<=\d[kmgt])$", "iB", text, flags=re.IGNORECASE))
