"""What options choose among, if the library has no name for it that is quick to import."""

from typing import Literal

Method = Literal["auto", "metis", "kaminpar", "ldg", "fennel", "random", "range"]
MethodOrFrequency = Literal[Method, "frequency"]
Hotness = Literal["vip", "presample", "degree"]
