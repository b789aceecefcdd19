"""Addresses for the pods of one node."""

from __future__ import annotations

from ipaddress import IPv4Network

__all__ = ["PodAddresses"]


class PodAddresses:
    """Hands out addresses of a range, each to one pod at a time.

    Args:
        cidr: The range, such as `10.244.3.0/24`; its first address is the node's own.
    """

    def __init__(self, cidr: str) -> None:
        self._network = IPv4Network(cidr)
        self._taken: dict[str, int] = {}
        self._next = 2

    def take(self, pod_uid: str, *, known: str = "") -> str:
        """Return the address of a pod, the one that it already has if known; when all are taken, one is used twice."""
        if pod_uid not in self._taken:
            number = self._number_of(known) or self._free()
            self._taken[pod_uid] = number
        return str(self._network[self._taken[pod_uid]])

    def release(self, pod_uid: str) -> None:
        """Give back the address of a pod; none is no error."""
        self._taken.pop(pod_uid, None)

    def _number_of(self, known: str) -> int | None:
        if not known:
            return None
        number = int.from_bytes(bytes(map(int, known.split(".")))) - int(self._network.network_address)
        return number if 0 < number < self._network.num_addresses else None

    def _free(self) -> int:
        size, taken = self._network.num_addresses, set(self._taken.values())
        for _ in range(size):
            number, self._next = self._next, self._next + 1 if self._next + 2 < size else 2
            if number not in taken:
                return number
        return self._next
