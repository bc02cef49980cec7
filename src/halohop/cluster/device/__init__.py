"""A graph as the batches of a GPU are made of it: lists and rows on the device, in memory that it reads, or with the host.

- `graph`: `DeviceGraph`, which answers the requests of samplers and loaders with tensors of the device
- `lists`: the lists of neighbours, on the device or page-locked
- `rows`: the columns of tables, with a cache of the hottest rows
"""

from halohop.cluster.device.graph import MODES, DeviceGraph, DeviceOptions, Mode

__all__ = ["MODES", "DeviceGraph", "DeviceOptions", "Mode"]
