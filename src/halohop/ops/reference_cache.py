"""A cache's index in plain Python: the specification of `halohop.ops.CacheIndex`."""

import torch
from torch import Tensor

WAYS, MOST = 8, 3


class CacheIndex:
    def __init__(self, num_places: int) -> None:
        self.num_places = max(num_places // WAYS, 1) * WAYS
        self._sets: list[list[list[int] | None]] = [[None] * WAYS for _ in range(self.num_places // WAYS)]
        self._hands = [0] * len(self._sets)

    def _set_of(self, key: int) -> int:
        high = (key * 0x9E3779B97F4A7C15) % 2**64 >> 32
        return high * len(self._sets) >> 32

    def find(self, keys: Tensor, columns: int) -> Tensor:
        places = []
        for key in keys.tolist():
            number, place = self._set_of(key), -1
            for way, entry in enumerate(self._sets[number]):
                if entry is not None and entry[0] == key and entry[1] & columns == columns:
                    entry[2] = min(entry[2] + 1, MOST)
                    place = number * WAYS + way
            places.append(place)
        return torch.tensor(places, dtype=torch.int64)

    def take_places(self, keys: Tensor, columns: int) -> Tensor:
        return torch.tensor([self._place_of(key, columns) for key in keys.tolist()], dtype=torch.int64)

    def _place_of(self, key: int, columns: int) -> int:
        number = self._set_of(key)
        entries = self._sets[number]
        known = [way for way, entry in enumerate(entries) if entry is not None and entry[0] == key]
        empty = [way for way, entry in enumerate(entries) if entry is None]
        way = (known or empty or [-1])[0]
        while way < 0:
            entry = entries[self._hands[number]]
            assert entry is not None
            if entry[2] == 0:
                way = self._hands[number]
            entry[2] -= 1
            self._hands[number] = (self._hands[number] + 1) % WAYS
        if not known:
            entries[way] = [key, 0, 0]
        entry = entries[way]
        assert entry is not None
        entry[1] |= columns
        return number * WAYS + way

    @property
    def num_kept(self) -> int:
        return sum(entry is not None for entries in self._sets for entry in entries)
