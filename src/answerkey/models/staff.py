"""The branches of an asker: one on each node, each with its share of what the endpoint allows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from answerkey.errors import EngineError
from answerkey.models.branch import Order, open_branch
from answerkey.models.connections import Connection
from answerkey.models.limits import Limits
from answerkey.models.parcels import Parcel
from answerkey.models.stations import Node, Station, Stations

SECONDS_PER_MINUTE = 60


@dataclass(eq=False)
class Member:
    """One branch as it is seen from here.

    `out` are the numbers of the calls that it has, `window` how many it may have, `losses` how often it was
    lost since it answered last.
    """

    node: Node
    station: Station
    order: Parcel[Order]
    window: int
    out: set[int] = field(default_factory=set)
    losses: int = 0

    async def call(self, method: str, *given: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """Call a method of the branch."""
        return await asyncio.wrap_future(self.station.call(method, *given))


class Staff:
    """Opens the branches, replaces those that are lost, and closes them.

    An endpoint that all nodes share has its limits shared out; where each node has an endpoint of its own,
    the limits are for each.
    """

    def __init__(self, connection: Connection, limits: Limits, stations: Stations) -> None:
        self._connection = connection
        self._limits = limits
        self._stations = stations
        self.members: list[Member] = []

    def open(self) -> None:
        """Open the branches, if they are not open yet."""
        if self.members:
            return
        nodes = list(self._stations.list_nodes())
        if not nodes:
            raise EngineError("E601", "the cluster has no node that takes work", hint="look at `ray status`")
        orders = share_out(Order(self._connection, self._limits), len(nodes))
        self.members = [self._open_member(node, order) for node, order in zip(nodes, orders, strict=False)]

    def replace(self, member: Member) -> bool:
        """Open a branch in place of one that is lost; False when its node is gone and had its own endpoint.

        It goes to the same node, or to another if that one is gone: the share stays in use.
        """
        member.station.close()
        nodes = list(self._stations.list_nodes())
        if member.node not in nodes:
            if self._connection.is_per_node or not nodes:
                self.members.remove(member)
                return False
            member.node = min(nodes, key=self._count_members)
        member.station = self._open_station(member.node, member.order)
        return True

    def close(self) -> None:
        """End the processes."""
        for member in self.members:
            member.station.close()
        self.members = []

    def _count_members(self, node: Node) -> int:
        return sum(one.node == node for one in self.members)

    def _open_member(self, node: Node, order: Order) -> Member:
        parcel = Parcel.pack(order)
        places = order.connection.max_concurrent or order.limits.max_concurrent
        return Member(node, self._open_station(node, parcel), parcel, window=2 * places)

    def _open_station(self, node: Node, order: Parcel[Order]) -> Station:
        return self._stations.open(node, partial(open_branch, order))


def share_out(order: Order, nodes: int) -> list[Order]:
    """Return an order for each node that is to ask, in which all limits together are those of the order.

    Every branch has a place at least, and a request a second: what may come at once stays what it is.
    """
    connection, limits = order.connection, order.limits
    if connection.is_per_node:
        return [order] * nodes
    places = connection.max_concurrent or limits.max_concurrent
    requests = connection.requests_per_minute or limits.requests_per_minute
    tokens = connection.tokens_per_minute or limits.tokens_per_minute
    count = min(nodes, max(1, places))
    if requests is not None:
        count = min(count, max(1, int(requests / SECONDS_PER_MINUTE)))
    return [
        replace(
            order,
            connection=replace(
                connection,
                max_concurrent=places // count + (number < places % count),
                requests_per_minute=None if requests is None else requests / count,
                tokens_per_minute=None if tokens is None else tokens / count,
            ),
        )
        for number in range(count)
    ]
