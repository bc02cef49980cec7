"""The library Ray, imported where it is used first."""

from importlib import import_module
from typing import Any

from halohop.errors import InputError

NAMESPACE = "halohop"
"""Where actors of all services are named, so that other jobs of the cluster find them, too."""


def ray_library(module: str = "ray") -> Any:
    """A module of Ray's.

    Raises:
        InputError: it is not installed; names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"the engine ray needs {module}: pip install 'halohop[ray]'") from error
