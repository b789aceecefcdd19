"""Manifests as people read them: YAML without anchors, and texts of several lines as blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

__all__ = ["render_manifests"]


class _Dumper(yaml.SafeDumper):
    """Writes every object out, however often it is used."""

    def ignore_aliases(self, data: Any) -> bool:
        """Tell that nothing is worth an anchor."""
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)


def render_manifests(manifests: Iterable[Any]) -> str:
    """Return manifests as one YAML text of several documents."""
    documents = (yaml.dump(item, Dumper=_Dumper, sort_keys=False, width=118) for item in manifests)
    return "---\n".join(documents)
