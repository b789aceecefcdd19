"""Parts of a cluster that can be looked at by themselves: nodes that share no pool decide apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from claimsmith.allocate.prepared.node_selector import NAME_ANCHOR, Anchor, find_anchors, matches_node
from claimsmith.allocate.whatif.trial import ClaimUsers, index_users
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.device import Device
from claimsmith.model.names import ClaimRef, PodRef, PoolId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.topology import NodeSelector
from claimsmith.model.workload import Pod

__all__ = ["Neighbourhoods", "finds_every_node_alike"]


@dataclass(slots=True, eq=False)
class Neighbourhoods:
    """Which nodes share pools, and the cluster as a few nodes see it.

    Args:
        snapshot: The cluster.
    """

    snapshot: ClusterSnapshot
    _slices: defaultdict[PoolId, list[ResourceSlice]] = field(default_factory=lambda: defaultdict(list))
    _pools: defaultdict[str, set[PoolId]] = field(default_factory=lambda: defaultdict(set))
    _holders: defaultdict[PoolId, dict[ClaimRef, ResourceClaim]] = field(default_factory=lambda: defaultdict(dict))
    _unplaced: dict[ClaimRef, ResourceClaim] = field(default_factory=dict)
    _pods: defaultdict[str, list[PodRef]] = field(default_factory=lambda: defaultdict(list))
    _labelled: defaultdict[Anchor, list[str]] = field(default_factory=lambda: defaultdict(list))
    _users: Mapping[ClaimRef, ClaimUsers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.snapshot.slices:
            self._slices[item.pool_id].append(item)
            for node in self._find_nodes(item):
                self._pools[node].add(item.pool_id)
        for ref, claim in self.snapshot.claims.items():
            if claim.allocation is None or not claim.allocation.results:
                self._unplaced[ref] = claim
            else:
                for result in claim.allocation.results:
                    self._holders[result.device_id.pool_id][ref] = claim
        for pod_ref, pod in self.snapshot.pods.items():
            self._pods[pod.node_name].append(pod_ref)
        self._users = index_users(self.snapshot)

    def split(self) -> tuple[tuple[str, ...], ...]:
        """Return the nodes in groups: those of two groups reach no pool in common; in order of their first node."""
        group_of = {name: name for name in self.snapshot.nodes}

        def find(name: str) -> str:
            while group_of[name] != name:
                group_of[name] = name = group_of[group_of[name]]
            return name

        first_of: dict[PoolId, str] = {}
        for name in self.snapshot.nodes:
            for pool in self._pools.get(name, ()):
                other = first_of.setdefault(pool, name)
                group_of[find(name)] = find(other)
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for name in self.snapshot.nodes:
            groups[find(name)].append(name)
        return tuple(tuple(names) for names in groups.values())

    def cut(self, nodes: Collection[str], *, keep: Iterable[ClaimRef] = ()) -> ClusterSnapshot:
        """Return the cluster as these nodes see it: themselves, their pools, and who holds devices of them.

        Args:
            nodes: Their names.
            keep: Claims that stay in any case, such as those of the pod that is asked about.
        """
        pools = {pool for name in nodes for pool in self._pools.get(name, ())}
        claims = dict(self._unplaced)
        claims.update((ref, self.snapshot.claims[ref]) for ref in keep if ref in self.snapshot.claims)
        for pool in pools:
            claims.update(self._holders.get(pool, {}))
        refs = [ref for name in nodes for ref in self._pods.get(name, ())]
        refs += [ref for claim in claims if claim in self._users for ref in sorted(self._users[claim].pods)]
        slices = [item for pool in pools for item in self._slices[pool]]
        return replace(
            self.snapshot,
            nodes={name: self.snapshot.nodes[name] for name in nodes},
            slices=tuple(sorted(slices, key=_byte_order)),
            claims=claims,
            pods={ref: self.snapshot.pods[ref] for ref in refs},
        )

    def _find_nodes(self, item: ResourceSlice) -> Iterator[str]:
        """Yield the nodes that may reach a slice, or one of its devices."""
        nodes = self.snapshot.nodes
        targets: tuple[ResourceSlice | Device, ...] = (item, *(item.devices if item.per_device_node_selection else ()))
        for target in targets:
            if target.all_nodes:
                yield from nodes
            elif target.node_name:
                yield from (name for name in (target.node_name,) if name in nodes)
            elif target.node_selector is not None:
                yield from self._find_selected(target.node_selector)

    def _find_selected(self, selector: NodeSelector) -> Iterator[str]:
        """Yield the nodes that a selector matches; only those are asked that have a label which it asks for."""
        anchors, nodes = find_anchors(selector), self.snapshot.nodes
        if anchors is None:
            names: Iterable[str] = nodes
        else:
            if not self._labelled:
                self._index_labels()
            names = dict.fromkeys(name for anchor in sorted(anchors) for name in self._labelled.get(anchor, ()))
        yield from (name for name in names if matches_node(selector, nodes[name]))

    def _index_labels(self) -> None:
        for name, node in self.snapshot.nodes.items():
            for anchor in ((NAME_ANCHOR, name), *node.labels.items()):
                self._labelled[anchor].append(name)


def _byte_order(item: ResourceSlice) -> bytes:
    return item.name.encode()


def finds_every_node_alike(pod: Pod) -> bool:
    """Tell whether where one pod like this goes says nothing about where the next can go.

    That is so when each gets claims of its own; a claim that several share ties them to one place.
    """
    return all(entry.claim_name is None for entry in pod.claims)
