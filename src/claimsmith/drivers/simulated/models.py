"""What is known of GPU models, so that a file only has to name one.

Source: product pages and nvidia-smi listings (memory as NVML reports it); partition tables as `partitions` says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["GpuModel", "find_gpu_model", "list_gpu_models"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A GPU model.

    Args:
        memory_mib: Memory in MiB.
        compute_capability: Semantic version, such as 8.0.0.
        architecture: Name of the family.
        partitions: Key of its partition table; empty when it can't be cut.
    """

    memory_mib: int
    compute_capability: str
    architecture: str
    partitions: str = ""


_MODELS: Final[dict[str, GpuModel]] = {
    "v100-16": GpuModel(memory_mib=16_384, compute_capability="7.0.0", architecture="Volta"),
    "v100-32": GpuModel(memory_mib=32_768, compute_capability="7.0.0", architecture="Volta"),
    "t4": GpuModel(memory_mib=15_360, compute_capability="7.5.0", architecture="Turing"),
    "a10": GpuModel(memory_mib=23_028, compute_capability="8.6.0", architecture="Ampere"),
    "a30": GpuModel(memory_mib=24_576, compute_capability="8.0.0", architecture="Ampere", partitions="a30-24gb"),
    "a100-40": GpuModel(memory_mib=40_960, compute_capability="8.0.0", architecture="Ampere", partitions="a100-40gb"),
    "a100-80": GpuModel(memory_mib=81_920, compute_capability="8.0.0", architecture="Ampere", partitions="a100-80gb"),
    "l4": GpuModel(memory_mib=23_034, compute_capability="8.9.0", architecture="Ada Lovelace"),
    "l40s": GpuModel(memory_mib=46_068, compute_capability="8.9.0", architecture="Ada Lovelace"),
    "h100-80": GpuModel(memory_mib=81_559, compute_capability="9.0.0", architecture="Hopper", partitions="h100-80gb"),
    "h200-141": GpuModel(memory_mib=143_771, compute_capability="9.0.0", architecture="Hopper"),
}
_ALIASES: Final = {"v100": "v100-16", "a100": "a100-40", "h100": "h100-80", "h200": "h200-141"}
_NOISE: Final = re.compile(r"\b(nvidia|tesla|sxm\d?|pcie|hbm\w+|\d+g)\b|gb\b")
_SEPARATORS: Final = re.compile(r"[-_ ]+")


def find_gpu_model(name: str) -> GpuModel | None:
    """Return the model that a name means, such as `A100-80`, `NVIDIA A100-SXM4-80GB` or `T4`; None when unknown."""
    plain = _NOISE.sub("", name.lower())
    key = _SEPARATORS.sub("-", plain).strip("-")
    return _MODELS.get(_ALIASES.get(key, key))


def list_gpu_models() -> tuple[str, ...]:
    """Return the names of the known models."""
    return tuple(name.upper() for name in _MODELS)
