"""Tables among the columns that users name for their batches."""

from collections.abc import Mapping, Sequence

from halohop.cluster.graph import Graph
from halohop.errors import SchemaError
from halohop.pyg.columns import Names, check_places, columns_of
from halohop.sampling.columns import Columns
from halohop.sampling.table_rows import TablesOfBatches
from halohop.typing import TableKey


def with_tables(
    graph: Graph, known: Mapping[TableKey, Sequence[str]], node_columns: Names, edge_columns: Names
) -> tuple[Columns, TablesOfBatches]:
    """As `columns_of`, where names may be those of tables, too; and which tables these are.

    Owners are asked only for names that are no columns. None stands for all columns, and for no table.

    Raises:
        SchemaError, InputError: as of `columns_of` and `check_places`.
    """
    try:
        return columns_of(known, node_columns, edge_columns), TablesOfBatches()
    except SchemaError:
        tables = TablesOfBatches.of(graph, known)
        if not tables.names:
            raise
    both = {key: [*names, *tables.names.get(key, ())] for key, names in known.items()}
    columns = columns_of(both, node_columns, edge_columns)
    tables = tables.named(columns)
    check_places(both, columns, homogeneous=graph.schema.is_homogeneous)
    return columns, tables
