"""`graphlearn_torch.distributed`, by its names."""

from typing import Any

from halohop.glt.notes import missing


def __getattr__(name: str) -> Any:
    return missing("distributed", name)
