"""Layer-wise inference: every layer of a model is computed once for every node, from all its neighbours.

    job = InferenceJob(parts=Path("parts"), out=Path("vectors"), world=world)
    files = infer(model, graph, job)                # any graph: rows of a layer lie on the disk, a killed run goes on
    rows = LayerPass(graph, "paper", gid, world=world, device=device).rows(layered)    # rows of a layer lie in memory

A model is a module with `layers` (`UserLayers` says what they may do), or a `LayeredModel` of your own.
"""

from halohop.files.parquet import parquet
from halohop.inference.in_memory import LayerPass, costs_less
from halohop.inference.job import InferenceJob, ResultForm
from halohop.inference.model import CONFIDENCE, EMBEDDINGS, PREDICTIONS, LayeredModel, Neighbours, check_finite, classified
from halohop.inference.results import Results, check_results, shared_results
from halohop.inference.run import finish_results, infer
from halohop.inference.user import UserLayers

__all__ = [
    "CONFIDENCE",
    "EMBEDDINGS",
    "PREDICTIONS",
    "InferenceJob",
    "LayerPass",
    "LayeredModel",
    "Neighbours",
    "ResultForm",
    "Results",
    "UserLayers",
    "check_finite",
    "check_results",
    "classified",
    "costs_less",
    "finish_results",
    "infer",
    "parquet",
    "shared_results",
]
