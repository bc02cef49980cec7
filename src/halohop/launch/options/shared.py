"""The options of the commands: their help, their groups, and defaults that are the library's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from halohop.launch.options import choices
from halohop.launch.options.choices import Decoder, Form, Method, Model, Sampling, Strategy
from halohop.launch.options.parsing import check_cache, check_numbers, check_size, read_config_option, read_run_option

MODEL, TRAINING, LINKS = "Model", "Training", "Link prediction"
EVALUATION, PLACE = "Evaluation and inference", "Where it runs"


def _group(panel: str, help_text: str, **settings: Any) -> Any:
    return typer.Option(rich_help_panel=panel, help=help_text, **settings)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=read_config_option,
        is_eager=True,
        show_default=False,
        help="TOML or YAML file with any of these options by their names; the command line wins.",
    ),
]
PartsFolder = Annotated[Path, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph.")]
PartsOrSource = Annotated[
    str,
    typer.Argument(
        metavar="PARTS_OR_SOURCE",
        help="Folder of a partitioned graph; or its servers, HOST:PORT,...; or a source, which is partitioned first.",
    ),
]
PartsOrServers = Annotated[
    str, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph; with --fanout also its servers, HOST:PORT,...")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="synthetic:SIZE, synthetic-hetero:SIZE, pyg:CLASS/NAME, a .pt file, a graph.toml, a data set's folder, or "
        "another library's partitions: glt:FOLDER, dgl:FOLDER/part_config.json.",
    ),
]
Verify = Annotated[bool, typer.Option("--verify", help="Read every file and compare it with its checksum first.")]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Begin anew where the folder holds a run, which is lost.")]
OverwriteResults = Annotated[bool, typer.Option("--overwrite", help="Replace results that are there.")]
FeatureDtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        show_default="as in SOURCE",
        help="Store x and edge_attr as float16, bfloat16 or int8; batches have the dtype of SOURCE. Others by name: feat=int8.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a partitioned graph in OUT.")]
PartitionMethod = Annotated[
    Method,
    typer.Option(help="metis cuts the fewest edges; ldg and fennel take little memory; auto: metis if it can."),
]
Tolerance = Annotated[
    float, typer.Option(min=0.0, help="How far a partition may be above the mean of nodes, training nodes and edges.")
]
Blocks = Annotated[
    int | None,
    typer.Option(
        "--blocks",
        metavar="N",
        min=0,
        show_default="64, or 16 of a small graph, where the partitions divide them",
        help="Blocks of near nodes, for --locality blocks: a power of two, which only metis makes; 0: none.",
    ),
]
BalanceTypes = Annotated[bool, typer.Option("--balance-types", help="Balance the nodes of each type on their own.")]
GivenAssignment = Annotated[
    list[str] | None,
    typer.Option(
        "--assignment",
        metavar="[TYPE=]FILE",
        show_default=False,
        help="The partition of each node, instead of a method: a .npy file, or a text with a number on each line. Of several "
        "node types: given for each, or a folder with such a file for each.",
    ),
]
Halo = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Columns of nodes, or raw_id, to store along the edges, too: for times of nodes, or labor, on several hosts.",
    ),
]
WeightSums = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Columns of edges, weights, whose running sums are stored: draws by them are quicker. A byte an edge.",
    ),
]
EdgeDir = Annotated[
    choices.EdgeDir,
    typer.Option(help="Which neighbours can be drawn: those with an edge to a node, or those with an edge from it."),
]
Normalize = Annotated[
    bool, typer.Option("--normalize/--no-normalize", help="Divide each node's features by their sum; else they stay as stored.")
]

Undirected = Annotated[
    bool, typer.Option("--undirected", help="Add the reverse of every edge that has none; else edges go as they are stored.")
]

BuildMemory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        callback=check_size,
        show_default="half of what is available",
        help="What the process may take, such as 4GB; what does not fit is read and written in pieces.",
    ),
]
Worker = Annotated[
    bool,
    typer.Option("--worker", help="Share the work with all that are started with the same arguments, here or on other hosts."),
]

Json = Annotated[bool, typer.Option("--json", help="Print events and results as JSON, a line each; all else to standard error.")]

TaskKind = Annotated[choices.TaskName, typer.Option(help="node: classify nodes; link: predict edges.")]
PartitionTask = Annotated[choices.TaskName, typer.Option(help="link: with the edges of val and test, and masks that mark them.")]

ModelName = Annotated[Model, _group(MODEL, "auto: sage, or rgcn where there are several relations.")]
Target = Annotated[str | None, _group(MODEL, "Node type to classify.", metavar="TYPE", show_default="the labelled one")]
Fanout = Annotated[
    str,
    _group(MODEL, "Neighbours per hop and relation, -1 for all; a layer per hop.", metavar="N,N,...", callback=check_numbers),
]
Hidden = Annotated[int, _group(MODEL, "Width of the layers.")]
Heads = Annotated[int, _group(MODEL, "Attention heads of gat and hgt.")]
Bases = Annotated[int, _group(MODEL, "Matrices that the relations of rgcn share.")]
Dropout = Annotated[
    float | None, _group(MODEL, "Share of the activations that is dropped in training.", show_default="0.5; 0 for links")
]

RelationName = Annotated[
    str | None, _group(LINKS, "Edges to predict.", metavar="SRC,NAME,DST", show_default="the only relation there is")
]
DecoderName = Annotated[Decoder, _group(LINKS, "How the vectors of two nodes become a score.")]
NegativesPerEdge = Annotated[int, _group(LINKS, "Random destinations from which an edge is distinguished.")]
EvalNegatives = Annotated[int, _group(LINKS, "Random destinations among which that of an edge is ranked.")]
StrictNegatives = Annotated[bool, _group(LINKS, "Only pairs that are no edges are negatives.")]
ExcludeSeedEdges = Annotated[bool, _group(LINKS, "Do not show the model the edges that it is asked about.")]
TimeAttr = Annotated[
    str | None, _group(LINKS, "Column of the edges' times: what came before an edge is all that it sees.", metavar="COLUMN")
]
TemporalStrategy = Annotated[Strategy, _group(LINKS, "Of the past, random edges or the last ones.")]

Epochs = Annotated[int, _group(TRAINING, "Passes over the training nodes or edges, at most.")]
BatchSize = Annotated[int, _group(TRAINING, "Seed nodes or edges per step and trainer.")]
LearningRate = Annotated[float, _group(TRAINING, "Learning rate of Adam.")]
WeightDecay = Annotated[float, _group(TRAINING, "Weight decay of Adam.")]
LocalityOfSeeds = Annotated[
    choices.Locality,
    _group(TRAINING, "Where the seeds of a batch lie: anywhere, in one block of the graph, or in one partition."),
]
Seed = Annotated[int, _group(TRAINING, "Of weights, order and draws: same seed, same batches on any number of nodes.")]

EvalEvery = Annotated[int, _group(EVALUATION, "Epochs from one validation to the next.")]
EvalFanout = Annotated[
    str | None,
    _group(
        EVALUATION,
        "Neighbours per hop.",
        metavar="N,N,...",
        callback=check_numbers,
        show_default="all of the graph by layers, or as in training: what costs less",
    ),
]
InferFanout = Annotated[
    str | None,
    _group(
        EVALUATION,
        "Draw so many neighbours per hop for each batch of nodes, -1 for all.",
        metavar="N,N,...",
        callback=check_numbers,
        show_default="all, a layer at a time",
    ),
]
BatchEdges = Annotated[int, _group(EVALUATION, "In-edges per step and trainer, without --fanout.")]
EvalBatchSize = Annotated[int, _group(EVALUATION, "Nodes per step and trainer.")]
Patience = Annotated[int, _group(EVALUATION, "Validations without a better result before training stops; 0 never stops early.")]

Nodes = Annotated[
    int, _group(PLACE, "Hosts to simulate here, each with its own share of the partitions; 1 needs no network.", min=1)
]
Trainers = Annotated[int, _group(PLACE, "Processes per node.", min=1)]
Workers = Annotated[int | None, _group(PLACE, "Threads per trainer that make batches.", show_default="its share of the cores")]
Cache = Annotated[
    str,
    _group(
        PLACE,
        "What rows of other hosts that were fetched lately, or are needed often, may take, per process: a size, auto, or none.",
        metavar="SIZE",
        callback=check_cache,
    ),
]
BacklogBytes = Annotated[
    str | None,
    _group(
        PLACE,
        "What the batches made ahead may weigh together, per trainer; each has one in any case.",
        metavar="SIZE",
        callback=check_size,
        show_default="1/16 of its memory, at most 4GiB",
    ),
]
Device = Annotated[str, _group(PLACE, "auto (a GPU if there is one), cpu, cuda or cuda:N.")]
Deadline = Annotated[
    float, _group(PLACE, "Seconds to wait for other trainers, and for servers, before giving up.", metavar="SECONDS")
]
SamplingPlace = Annotated[Sampling, _group(PLACE, "Who makes the batches of a graph on servers.")]
RunFolder = Annotated[
    str | None, _group(PLACE, "Folder of the run, or its URL.", metavar="FOLDER", show_default="runs/DATE-TIME")
]

MetricsAt = Annotated[
    str | None,
    _group(
        PLACE,
        "Where Prometheus and halohop top read what each trainer counts: PORT and the following.",
        metavar="[HOST]:PORT",
        show_default="nowhere; HOST: 127.0.0.1",
    ),
]
SaveEvery = Annotated[
    int, _group(PLACE, "Steps from one resumable state to the next, beside the one at the end of each epoch.", min=0)
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        callback=read_run_option,
        is_eager=True,
        show_default=False,
        help="Go on with the run in this folder, or at this URL, with its options, as if it had never been interrupted.",
        rich_help_panel=PLACE,
    ),
]

Checkpoint = Annotated[str, typer.Option(metavar="FOLDER", help="What training wrote: RUN/checkpoint; or its URL, with --stage.")]
ResultFolder = Annotated[str, typer.Option(metavar="FOLDER", help="Where the results go; or a URL, with --stage.")]
ResultForm = Annotated[Form, typer.Option(help="NumPy arrays, or one Parquet table.")]
Split = Annotated[str | None, typer.Option(metavar="NAME", show_default="every node", help="Only the nodes of this split.")]
EmbeddedType = Annotated[
    str | None,
    typer.Option("--target", metavar="TYPE", show_default="the destinations", help="Node type to embed, of a link model."),
]
Embeddings = Annotated[bool, typer.Option("--embeddings", help="Write the last hidden layer, too.")]

ServedParts = Annotated[
    str | None, typer.Option(metavar="N,N,...", show_default="all found here", help="Serve only these of them.")
]
GivenColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE:]NAME=FILE",
        show_default=False,
        help="A further column from a .npy file with a row for each id; TABLE is a node type, or a relation as src__name__dst. "
        "May be given several times, and is the same for all servers.",
    ),
]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to answer. Other hosts are let in only with a token.")]
Peers = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT,...|folder:PATH|dns:NAME:PORT",
        show_default=False,
        help="The other servers: to make batches where they hold what is not here, and to be found if this one moves. Or where "
        "they are found: a folder that all hosts share, or a name that has the addresses of all.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Holds the shared secret.", show_default="the environment's HALOHOP_TOKEN")
]
Encrypt = Annotated[
    bool, typer.Option("--encrypt", help="Encrypt; all others must, too (HALOHOP_ENCRYPT=1).", show_default=False)
]
Lease = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How long to keep what was made ready for a trainer that is gone.")
]
ServerMetricsAt = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST]:PORT",
        show_default="nowhere; HOST: 127.0.0.1",
        help="Where Prometheus and halohop top read what the server counts.",
    ),
]
