"""`graphlearn_torch.data`, by its names."""

from typing import Any

from halohop.glt.notes import missing


def __getattr__(name: str) -> Any:
    return missing("data", name)
