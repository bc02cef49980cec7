"""A graph as the batches of a GPU are made of it: lists and rows on the device, in memory that it reads, or with the host.

- `graph`: `DeviceGraph`, which answers the requests of samplers and loaders with tensors of the device
- `options`: what a user says about it
- `lists`: the lists of neighbours, on the device or page-locked
- `rows`: the columns of tables, with a cache of the hottest rows, which `hottest` chooses
- `far`: the same of columns that other hosts have
"""

from halohop.cluster.device.graph import DeviceGraph
from halohop.cluster.device.options import MODES, DeviceOptions, Mode

__all__ = ["MODES", "DeviceGraph", "DeviceOptions", "Mode"]
