"""What clients of servers can ask beside the graph: a number in a job, and ids that lie at the servers."""

from torch import Tensor

from halohop.cluster.connections import Connections, JobServers, ServerCard
from halohop.errors import InputError
from halohop.store.requests import MAX_NAME, MAX_RANKS
from halohop.typing import NodeType
from halohop.world import World


class Jobs:
    """Requests about jobs; of graphs from `halohop.connect`."""

    _connections: Connections | None

    def join(self, job: str, *, clients: int, rank: int | None = None) -> World:
        """This process's number among the clients that share a job, until the graph is closed.

        Loaders with this `world=`, and the same seeds, divide them: all clients take the same number of steps, and each seed is
        dealt once an epoch. A client that is lost leaves its number to the next one that joins.

        Args:
            job: its name, the same for all of its clients.
            clients: how many it has.
            rank: the number; None takes a free one.

        Raises:
            InputError: another client has this number, the job has all of its clients or another number of them, or the graph is
                not on servers.
            TransportError: the server that gives out numbers is lost.

        Example:
            >>> import tempfile, halohop
            >>> from halohop.datasets import synthetic
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=1)
            ...     with halohop.serve(f"{folder}/parts") as server, halohop.connect([server.address]) as graph:
            ...         loader = halohop.NeighborLoader(graph, [5], "train", world=graph.join("papers", clients=4))
            ...         len(loader)
            150
        """
        if not 1 <= clients <= MAX_RANKS or not 1 <= len(job) <= MAX_NAME:
            raise InputError(
                f"job={job[:MAX_NAME]!r} with clients={clients}; give a job a name, and at least one client (at most {MAX_NAME} "
                f"characters and {MAX_RANKS} clients)"
            )
        number = self._job_servers().join(job, clients, rank)
        return World(rank=number, size=clients)

    def servers(self) -> tuple[ServerCard, ...]:
        """The servers that were there when this process connected, by their numbers, and what each says of itself.

        Raises:
            InputError: the graph is not on servers.
        """
        return self._job_servers().cards()

    def server(self, number: int) -> ServerCard:
        """One of `servers`, by its number.

        Raises:
            InputError: no server has it, or the graph is not on servers.
        """
        found = {card.number: card for card in self.servers()}
        if number not in found:
            raise InputError(f"there is no server {number}; the numbers that servers were given are {sorted({*found} - {-1})}")
        return found[number]

    def share_servers(self, world: World) -> tuple[list[int], World]:
        """Divides the servers among the clients of a job, so that together they go through the seeds of every server.

        Client c of C takes the servers c, c + C, c + 2 C, ... If there are more clients than servers, client c takes server c
        modulo the number of servers, and shares its seeds with the other clients that do.

        Args:
            world: what `join` returned.

        Returns:
            The numbers of this client's servers, for `seed_split` and `seed_file`; and its place among the clients that share
            them, for ``world=`` of loaders.

        Raises:
            InputError: a server has no number, or the graph is not on servers.

        Example:
            >>> import tempfile, halohop
            >>> from halohop.datasets import synthetic
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=1)
            ...     with halohop.serve(f"{folder}/parts", world=halohop.World()) as server:
            ...         with halohop.connect([server.address]) as graph:
            ...             servers, sharing = graph.share_servers(graph.join("papers", clients=4, rank=2))
            >>> servers, sharing.rank, sharing.size
            ([0], 2, 4)
        """
        numbers = [card.number for card in self.servers()]
        if -1 in numbers:
            raise InputError("servers without numbers cannot be divided among clients; start each with serve(..., world=)")
        first = world.rank % len(numbers)
        sharing = range(first, world.size, len(numbers))
        return numbers[first :: world.size], World(rank=sharing.index(world.rank), size=len(sharing))

    def seed_file(self, file: str, *, server: int | None = None) -> Tensor:
        """Ids from a file below the folder that the servers name (``halohop serve --seeds FOLDER``), for loaders.

        Args:
            file: its path below that folder, or from the root of the server's files; `.npy`, or `.pt` with a tensor.
            server: the number of the one that is asked (`ServerCard.number`); None: the first that has it.

        Returns:
            int64: ids of nodes ``[n]``, or the ends of edges ``[2, n]``, as the file has them.

        Raises:
            InputError: no server has such a file, it holds something else or lies outside the folder, there is no server of this
                number, or the graph is not on servers.
            TransportError: a server is lost.
        """
        return self._asked(server).seed_file(file, server=server)

    def seed_split(self, name: str, *, node_type: NodeType | None = None, server: int | None = None) -> Tensor:
        """Ids of nodes (int64 ``[n]``) of a split that a server was given (``halohop.serve(splits=...)``), for loaders.

        Args:
            name: of the split.
            node_type: may be left out where the split has nodes of one type.
            server: as of `seed_file`.

        Raises:
            InputError: no server has such a split, there is no server of this number, or the graph is not on servers.
            TransportError: a server is lost.
        """
        return self._asked(server).seed_split(name, node_type or "", server=server)

    def _asked(self, server: int | None) -> JobServers:
        if server is not None:
            self.server(server)
        return self._job_servers()

    def _job_servers(self) -> JobServers:
        servers = None if self._connections is None else self._connections.jobs
        if servers is None:
            raise InputError(
                "this graph is not on servers, which know jobs and files of seeds; connect to some (halohop.connect)"
            )
        return servers
