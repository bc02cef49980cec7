"""Engine `ray`: graph servers as restartable actors of Ray, found by name, and trainers by Ray Train. It needs `halohop[ray]`."""

from halohop.launch.jobs.ray.service import GraphService

__all__ = ["GraphService"]
