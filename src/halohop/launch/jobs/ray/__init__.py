"""Engine `ray`, and `GraphService`: graph servers as actors that Ray restarts, for drivers of users. It needs `halohop[ray]`."""

from halohop.launch.jobs.ray.service import GraphService

__all__ = ["GraphService"]
