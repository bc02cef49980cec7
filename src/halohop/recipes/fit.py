"""Whether a run and a graph fit together, as far as the graph's schema shows: no row is read."""

from halohop.recipes.config import TrainConfig
from halohop.recipes.labels import find_target
from halohop.recipes.link_edges import check_splits, find_relation
from halohop.recipes.spec import ModelSpec
from halohop.records import Schema


def check_fit(config: TrainConfig, schema: Schema) -> None:
    """Looks for what the task of a run needs, and whether its model is one for such a graph.

    Raises:
        SchemaError, InputError: as the tasks raise them; names what is missing.
    """
    if config.task == "node":
        ModelSpec.of(config, schema, find_target(schema, config.target), num_classes=1)
    else:
        relation = find_relation(schema, config.relation)
        ModelSpec.of(config, schema, relation[2], config.hidden, relation)
        check_splits(schema, relation, config.time_attr)
