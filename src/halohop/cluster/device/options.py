"""What a user says about a GPU: who draws, and how much of its memory rows may take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from halohop.errors import InputError
from halohop.memory import parse_size

Mode = Literal["cpu", "zero_copy", "cuda"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """What a user says about a GPU.

    Args:
        device: such as ``"cuda"`` or ``"cuda:1"``.
        mode: who draws neighbours. "cpu": the host; "zero_copy": the GPU, from page-locked memory of the host; "cuda": the GPU,
            from its own memory.
        feature_cache: of GPUs' memory, for the hottest rows: in bytes, as text ("4GB"), or as a share (0.0 to 1.0) of what is
            free.
        cache_devices: the GPUs that divide the cache, equal shares; none: the device alone.

    Raises:
        InputError: no such mode, a cache that is no size, or GPUs to divide none.
    """

    device: str
    mode: Mode = "cpu"
    feature_cache: str | int | float = 0
    cache_devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"mode={self.mode!r} is none of {list(MODES)}")
        share = _share(self.feature_cache)
        if share is not None and not 0 <= share <= 1:
            raise InputError(f"feature_cache={self.feature_cache} is no share of the free memory; give 0.0 to 1.0, or a size")
        if share is None:
            parse_size(self.feature_cache)  # type: ignore[arg-type]  # a float is a share
        if self.cache_devices and not self.caches:
            raise InputError(f"cache_devices={list(self.cache_devices)} divide a cache; say its size by feature_cache")
        if len(set(self.cache_devices)) < len(self.cache_devices):
            raise InputError(f"cache_devices={list(self.cache_devices)} names a GPU twice; name each once")

    @property
    def caches(self) -> bool:
        """Whether there is to be a cache."""
        share = _share(self.feature_cache)
        return share > 0 if share is not None else parse_size(self.feature_cache) > 0  # type: ignore[arg-type]  # likewise

    def cache_bytes(self, *free: int) -> int:
        """The size of the cache, of so many bytes that are free on each of the GPUs that hold it.

        Raises:
            InputError: the share of one is larger.
        """
        share, least = _share(self.feature_cache), min(free)
        if share is not None:
            return int(least * share) * len(free)
        wanted = parse_size(self.feature_cache)  # type: ignore[arg-type]  # likewise
        if wanted > least * len(free):
            holders = [*self.cache_devices] or [self.device]
            parts = "" if len(free) == 1 else f", {-(-wanted // len(free))} on each of {len(free)}"
            raise InputError(
                f"feature_cache={self.feature_cache!r} is {wanted} bytes{parts}, but "
                f"{holders[free.index(least)]} has {least} free; give less, or a share of them such as 0.8"
            )
        return wanted

    @staticmethod
    def of(
        device: Any,
        mode: Mode | None = None,
        feature_cache: str | float | None = None,
        cache_devices: Sequence[str] | None = None,
    ) -> "DeviceOptions | None":
        """From a user's arguments; None where no device is named.

        Raises:
            InputError: what needs a device, without one.
        """
        if device is None:
            for name, value in (("mode", mode), ("feature_cache", feature_cache), ("cache_devices", cache_devices)):
                if value is not None:
                    raise InputError(f"{name}={value!r} is for GPUs; give device='cuda', or leave {name} out")
            return None
        return DeviceOptions(
            device=str(device),
            mode=mode or "cpu",
            feature_cache=0 if feature_cache is None else feature_cache,
            cache_devices=tuple(map(str, cache_devices or ())),
        )


def _share(cache: str | float) -> float | None:
    """A cache as a share of what is free: 0.5, or as text; None where it is a number of bytes."""
    if isinstance(cache, str) and "." in cache and cache.replace(".", "", 1).isdigit():
        return float(cache)
    return cache if isinstance(cache, float) else None
