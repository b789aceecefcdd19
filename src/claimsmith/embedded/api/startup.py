"""The objects that a cluster has from its beginning."""

from __future__ import annotations

from typing import Final

from claimsmith.api.kinds import NAMESPACE
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.served import get_kind

__all__ = ["FIRST_NAMESPACES", "create_first_objects"]

FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Namespaces of every cluster."""


async def create_first_objects(api: ObjectApi) -> None:
    """Create the namespaces of every cluster, each with its ServiceAccount, where they are missing."""
    served = get_kind(NAMESPACE)
    for name in FIRST_NAMESPACES:
        if api.store.find(served.stored, "", name) is None:
            await api.create(served, "", {"metadata": {"name": name}})
        await api.create_default_account(name)
