"""What the machine is, for the head of every result."""

import os
import platform
from pathlib import Path


def describe() -> dict[str, str]:
    return {
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{_memory_gib():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "huge pages": _chosen(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "load when started": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
    }


def _field(path: Path, name: str) -> str | None:
    if not path.exists():
        return None
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), None)


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _chosen(path: Path) -> str:
    return path.read_text().partition("[")[2].partition("]")[0] if path.exists() else "unknown"
