"""The pools of a configuration that are not named after their node, as far as it tells of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from claimsmith.api.manifests import Manifest
from claimsmith.daemons.agent_config import AgentConfig
from claimsmith.sdk.device_file import read_documents_of
from claimsmith.sdk.settings import SETTINGS_API_VERSION
from claimsmith.validate.names import check_pool_name

__all__ = ["NODE_MARK", "PoolRule", "read_pools"]

NODE_MARK: Final = "{node}"
"""Stands for the node's name in the name of a pool."""
_WILD: Final = {"*": ".*", "?": "."}


class PoolRule(NamedTuple):
    """A pool, and which nodes have it.

    Args:
        name: Its name; `{node}` in it stands for the node's.
        nodes: Names of the nodes, or patterns with `*` and `?`.
    """

    name: str
    nodes: tuple[str, ...] = ("*",)

    @property
    def node_pattern(self) -> str:
        """The regular expression of the nodes' names, in the syntax of RE2."""
        found = (".*" if "[" in name else "".join(_WILD.get(c, re.escape(c)) for c in name) for name in self.nodes)
        return f"^({'|'.join(found)})$"


def read_pools(config: AgentConfig) -> tuple[PoolRule, ...]:
    """Return the pools that a configuration names: in `spec.drivers[].pools`, and in settings as their `pool`.

    Raises:
        FieldError: A name is none of a pool.
        InputError: A settings file can't be read.
        ConfigError: The same.
    """
    found = {PoolRule(name): None for name in _iter_named(config)}
    files = dict.fromkeys(name for driver in config.content.drivers for name in driver.settings)
    for document in (*config.documents, *(item for name in files for item in read_documents_of(config.folder / name))):
        found |= dict.fromkeys(_iter_set(document))
    return tuple(found)


def _iter_named(config: AgentConfig) -> Iterator[str]:
    for index, driver in enumerate(config.content.drivers):
        for number, name in enumerate(driver.pools):
            for issue in check_pool_name(name.replace(NODE_MARK, "node"), "pools"):
                path = f"spec.drivers[{index}].pools[{number}]"
                allowed = f"the name of a pool, in which {NODE_MARK} stands for that of the node"
                raise config.refuse(path, name, allowed=allowed, hint=f"{issue.detail}; correct it")
            yield name


def _iter_set(document: Manifest) -> Iterator[PoolRule]:
    """Yield the pool that a document of settings names, for the nodes that it is for."""
    value = document.object
    content: Any = value
    if "apiVersion" in value or "kind" in value:
        content = value.get("spec") if value.get("apiVersion") == SETTINGS_API_VERSION else None
    if not isinstance(content, Mapping) or not isinstance(content.get("pool"), str) or not content["pool"]:
        return
    nodes = content.get("nodes", ["*"])
    is_list = isinstance(nodes, list) and all(isinstance(name, str) for name in nodes)
    yield PoolRule(content["pool"], tuple(nodes) if is_list else ("*",))
