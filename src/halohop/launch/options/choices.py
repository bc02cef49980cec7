"""What options choose among, as the command line spells it."""

from enum import StrEnum


class Method(StrEnum):
    """How to partition."""

    auto = "auto"
    metis = "metis"
    kaminpar = "kaminpar"
    ldg = "ldg"
    fennel = "fennel"
    random = "random"
    range = "range"


class MethodOrFrequency(StrEnum):
    """How to partition, where seeds and fanouts are named."""

    auto = "auto"
    metis = "metis"
    kaminpar = "kaminpar"
    ldg = "ldg"
    fennel = "fennel"
    random = "random"
    range = "range"
    frequency = "frequency"


class EdgeDir(StrEnum):
    """Which edges the list of a node holds. (`in` is a keyword of Python's.)"""

    into = "in"
    out = "out"


class TaskName(StrEnum):
    """What is learned."""

    node = "node"
    link = "link"


class Decoder(StrEnum):
    """From two nodes' vectors to the score of an edge."""

    dot = "dot"
    mlp = "mlp"
    distmult = "distmult"


class Strategy(StrEnum):
    """Which edges of the past."""

    uniform = "uniform"
    last = "last"


class GraphMode(StrEnum):
    """Who draws neighbours for batches that are made on a GPU, and from where."""

    cpu = "cpu"
    zero_copy = "zero_copy"
    cuda = "cuda"


class Sampling(StrEnum):
    """Who makes the batches of a graph on servers."""

    servers = "servers"
    client = "client"


class EmbedOptimizer(StrEnum):
    """What trains the vectors of nodes without features."""

    adam = "adam"
    adagrad = "adagrad"
    rowwise_adagrad = "rowwise-adagrad"
    sgd = "sgd"


class Locality(StrEnum):
    """From where the seeds of a batch are."""

    none = "none"
    blocks = "blocks"
    owner = "owner"


class Hotness(StrEnum):
    """How it is found out which nodes batches need."""

    vip = "vip"
    presample = "presample"
    degree = "degree"


class Model(StrEnum):
    """The models of `halohop train`."""

    auto = "auto"
    sage = "sage"
    gcn = "gcn"
    gat = "gat"
    rgcn = "rgcn"
    hgt = "hgt"


class Form(StrEnum):
    """The files of `halohop infer`."""

    npy = "npy"
    parquet = "parquet"
