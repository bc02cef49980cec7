"""The options of the commands: their help, their groups, and defaults that are the library's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from halohop.launch.options.choices import Method
from halohop.launch.options.parsing import check_cache, check_numbers, check_size, read_config_option, read_run_option
from halohop.recipes import config
from halohop.typing import EdgeDir as Direction

MODEL, TRAINING, LINKS = "Model", "Training", "Link prediction"
EVALUATION, PLACE = "Evaluation and inference", "Where it runs"


def _group(panel: str, help_text: str, **settings: Any) -> Any:
    return typer.Option(rich_help_panel=panel, help=help_text, **settings)


def size_option(panel: str | None, help_text: str, default: str, *flags: str) -> Any:
    """An option that takes a size such as 4GB."""
    shown: dict[str, Any] = {"metavar": "SIZE", "callback": check_size, "show_default": default}
    return typer.Option(*flags, rich_help_panel=panel, help=help_text, **shown)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=read_config_option,
        is_eager=True,
        show_default=False,
        help="TOML or YAML file with these options. The command line overrides it.",
    ),
]
PartsFolder = Annotated[Path, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph.")]
PartsOrSource = Annotated[
    str,
    typer.Argument(
        metavar="PARTS_OR_SOURCE",
        help="Folder or URL of a partitioned graph, its servers (HOST:PORT,...), or a source to partition first.",
    ),
]
PartsOrServers = Annotated[
    str,
    typer.Argument(metavar="PARTS", help="Folder or URL of a partitioned graph. With --fanout also its servers: HOST:PORT,..."),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="synthetic:SIZE, synthetic-hetero:SIZE, pyg:CLASS/NAME, a .pt file, a graph.toml, a dataset folder, "
        "glt:FOLDER, or dgl:FOLDER/part_config.json.",
    ),
]
Verify = Annotated[bool, typer.Option("--verify", help="First compare every file with its checksum.")]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Delete the run that is in the folder, and start again.")]
OverwriteResults = Annotated[bool, typer.Option("--overwrite", help="Replace existing results.")]
FeatureDtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        show_default="as in SOURCE",
        help="Store x and edge_attr as float16, bfloat16 or int8; other columns by name: feat=int8.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the partitioned graph in OUT.")]
PartitionMethod = Annotated[
    Method, typer.Option(help="How to assign nodes. auto is metis if it is installed and fits into memory.")
]
Tolerance = Annotated[float, typer.Option(min=0.0, help="How far a partition may exceed the mean size, as a share of it.")]
Blocks = Annotated[
    int | None,
    typer.Option(
        "--blocks",
        metavar="N",
        min=0,
        show_default="16, or 64 for 32 or 64 partitions",
        help="Blocks for --locality blocks: a power of two. Only metis makes them. 0 is none.",
    ),
]
BalanceTypes = Annotated[bool, typer.Option("--balance-types", help="Balance each node type separately.")]
GivenAssignment = Annotated[
    list[str] | None,
    typer.Option(
        "--assignment",
        metavar="[TYPE=]FILE",
        show_default=False,
        help="The partition of each node: a .npy file, or a text file with a number per line. Repeat it for each node type, "
        "or give a folder of such files.",
    ),
]
Halo = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Node columns, or raw_id, to also store with the edges, for sampling by node times or labor on several hosts.",
    ),
]
WeightSums = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Edge weights to store running sums of, for faster sampling. Costs a byte per edge.",
    ),
]
EdgeDir = Annotated[
    Direction,
    typer.Option(help="Neighbors that can be sampled: sources of edges into a node, or destinations of edges out of it."),
]
Normalize = Annotated[bool, typer.Option("--normalize/--no-normalize", help="Divide the features of each node by their sum.")]

Undirected = Annotated[bool, typer.Option("--undirected", help="Add the missing reverse of each edge.")]

BuildMemory = Annotated[
    str | None,
    size_option(
        None,
        "Memory limit of the build, such as 4GB. The rest is read and written in pieces.",
        "half of the free memory",
        "--memory",
    ),
]
Worker = Annotated[
    bool, typer.Option("--worker", help="Share the work with all processes that have the same arguments, on any host.")
]

Json = Annotated[bool, typer.Option("--json", help="Print events and results as JSON lines. Other text goes to standard error.")]

TaskKind = Annotated[config.TaskName, typer.Option(help="Classify nodes, or predict links.")]
PartitionTask = Annotated[config.TaskName, typer.Option(help="link splits the edges into train, val and test.")]

ModelName = Annotated[config.ModelName, _group(MODEL, "auto is sage, or rgcn for several relations.")]
Target = Annotated[str | None, _group(MODEL, "Node type to classify.", metavar="TYPE", show_default="the one with labels")]
Fanout = Annotated[
    str,
    _group(
        MODEL,
        "Neighbors per hop and relation. -1 is all. The model has a layer per hop.",
        metavar="N,N,...",
        callback=check_numbers,
    ),
]
Hidden = Annotated[int, _group(MODEL, "Channels of the hidden layers.")]
Heads = Annotated[int, _group(MODEL, "Attention heads of gat and hgt.")]
Bases = Annotated[int, _group(MODEL, "Basis matrices shared by the relations of rgcn.")]
Dropout = Annotated[float | None, _group(MODEL, "Dropout probability.", show_default="0.5, or 0 for links")]

RelationName = Annotated[str | None, _group(LINKS, "Edges to predict.", metavar="SRC,NAME,DST", show_default="the only one")]
DecoderName = Annotated[config.DecoderName, _group(LINKS, "How to score a pair of node embeddings.")]
NegativesPerEdge = Annotated[int, _group(LINKS, "Random destinations per edge in training.")]
EvalNegatives = Annotated[int, _group(LINKS, "Random destinations to rank each edge against in evaluation.")]
StrictNegatives = Annotated[bool, _group(LINKS, "Use only pairs without an edge as negatives.")]
ExcludeSeedEdges = Annotated[bool, _group(LINKS, "Hide the seed edges from the model.")]
TimeAttr = Annotated[
    str | None, _group(LINKS, "Edge times. The model then sees only what came before an edge.", metavar="COLUMN")
]
TemporalStrategy = Annotated[config.TemporalStrategy, _group(LINKS, "Sample random or the most recent earlier edges.")]

Epochs = Annotated[int, _group(TRAINING, "Maximum passes over the training nodes or edges.")]
BatchSize = Annotated[int, _group(TRAINING, "Seeds per step and trainer.")]
LearningRate = Annotated[float, _group(TRAINING, "Learning rate of Adam.")]
WeightDecay = Annotated[float, _group(TRAINING, "Weight decay of Adam.")]
LocalityOfSeeds = Annotated[
    config.Locality, _group(TRAINING, "Take the seeds of a batch from the whole graph, one block, or one partition.")
]
Seed = Annotated[int, _group(TRAINING, "Random seed. The same seed gives the same batches on any number of nodes.")]

EvalEvery = Annotated[int, _group(EVALUATION, "Validate every N epochs.")]
EvalFanout = Annotated[
    str | None,
    _group(
        EVALUATION,
        "Neighbors per hop in evaluation.",
        metavar="N,N,...",
        callback=check_numbers,
        show_default="layer by layer or as --fanout, whichever is cheaper",
    ),
]
InferFanout = Annotated[
    str | None,
    _group(
        EVALUATION,
        "Sample neighbors per hop for each batch. -1 is all.",
        metavar="N,N,...",
        callback=check_numbers,
        show_default="all, layer by layer",
    ),
]
BatchEdges = Annotated[int, _group(EVALUATION, "Edges per step and trainer, without --fanout.")]
EvalBatchSize = Annotated[int, _group(EVALUATION, "Nodes per step and trainer.")]
Patience = Annotated[
    int, _group(EVALUATION, "Stop after N validations without a better result. 0 never stops early.", metavar="N")
]

Nodes = Annotated[int, _group(PLACE, "Hosts to simulate on this machine. Each holds its share of the partitions.", min=1)]
Trainers = Annotated[int, _group(PLACE, "Trainer processes per node.", min=1)]
Workers = Annotated[int | None, _group(PLACE, "Loader threads per trainer.", show_default="its share of the cores")]
Cache = Annotated[
    str,
    _group(
        PLACE,
        "Memory per process for cached rows of other hosts, such as 512MB; or auto, or none.",
        metavar="SIZE",
        callback=check_cache,
    ),
]
BacklogBytes = Annotated[
    str | None, size_option(PLACE, "Memory per trainer for prefetched batches, such as 512MB.", "1/16 of its memory, up to 4GiB")
]
Device = Annotated[str, _group(PLACE, "cpu, cuda, cuda:N, or auto: a GPU if there is one.", metavar="NAME")]
Deadline = Annotated[float, _group(PLACE, "How long to wait for other trainers and servers.", metavar="SECONDS")]
SamplingPlace = Annotated[config.Sampling, _group(PLACE, "Where to sample a graph on servers.")]
RunFolder = Annotated[
    str | None, _group(PLACE, "Folder of the run, or its URL with --stage.", metavar="FOLDER", show_default="runs/DATE-TIME")
]

MetricsAt = Annotated[
    str | None,
    _group(
        PLACE,
        "Address for Prometheus and halohop top. Trainer K of a host uses PORT + K.",
        metavar="[HOST]:PORT",
        show_default="none; HOST is 127.0.0.1",
    ),
]
SaveEvery = Annotated[int, _group(PLACE, "Also save the run every N steps, not only after each epoch. 0 is never.", min=0)]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        callback=read_run_option,
        is_eager=True,
        show_default=False,
        help="Continue the run in this folder or URL, with its options.",
        rich_help_panel=PLACE,
    ),
]

Checkpoint = Annotated[str, typer.Option(metavar="FOLDER", help="RUN/checkpoint of a training run, or its URL with --stage.")]
ResultFolder = Annotated[str, typer.Option(metavar="FOLDER", help="Folder for the results, or a URL with --stage.")]
ResultForm = Annotated[config.ResultForm, typer.Option(help="Write NumPy arrays or a Parquet table.")]
Split = Annotated[
    str | None, typer.Option(metavar="NAME", show_default="all nodes", help="Predict only the nodes of this split.")
]
EmbeddedType = Annotated[
    str | None,
    typer.Option("--target", metavar="TYPE", show_default="destinations", help="Node type to embed with a link model."),
]
Embeddings = Annotated[bool, typer.Option("--embeddings", help="Also write the output of the last hidden layer.")]

ServedParts = Annotated[
    str | None, typer.Option(metavar="N,N,...", show_default="all in PARTS", help="Serve only these partitions.")
]
GivenColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE:]NAME=FILE",
        show_default=False,
        help="Add a column from a .npy file. TABLE is a node type, or a relation as src__name__dst. Repeatable; same on all "
        "servers.",
    ),
]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on. Other hosts need a token.")]
Peers = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT,...|folder:PATH|dns:NAME:PORT",
        show_default=False,
        help="The other servers, or where to find them: a shared folder, or a DNS name that has all their addresses.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with the shared secret.", show_default="HALOHOP_TOKEN in the environment"),
]
Encrypt = Annotated[
    bool, typer.Option("--encrypt", help="Encrypt connections. All processes need it, or HALOHOP_ENCRYPT=1.", show_default=False)
]
Lease = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How long to keep the state of a trainer that disconnected.")
]
ServerMetricsAt = Annotated[
    str | None,
    typer.Option(metavar="[HOST]:PORT", show_default="none; HOST is 127.0.0.1", help="Address for Prometheus and halohop top."),
]
