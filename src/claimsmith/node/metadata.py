"""What programs in containers may read of their devices: one file for each request, mounted through CDI. Pure.

    /var/run/kubernetes.io/dra-device-attributes/resourceclaims/<claim>/<request>/<driver>-metadata.json
    /var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/<pod claim>/<request>/<driver>-metadata.json

A file has the same object in each version, one after the other, the newest first; readers take the first they know.

Source: KEP-5304; api/metadata and kubeletplugin/metadata.go of k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from claimsmith.api.resource_v1_slices import encode_attribute
from claimsmith.errors import DriverAnswerError
from claimsmith.model.claim import NetworkData
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import Mount, PreparedDevice, PreparedDevices, PrepareRequest

__all__ = [
    "CONTAINER_FOLDER",
    "METADATA_VERSIONS",
    "FindAttributes",
    "MetadataFile",
    "MetadataPolicy",
    "metadata_mount",
    "plan_metadata",
]

CONTAINER_FOLDER: Final = "/var/run/kubernetes.io/dra-device-attributes"
"""Where containers find the files."""
METADATA_VERSIONS: Final = ("v1beta1", "v1alpha1")
"""Versions of the format, the newest first."""
_GROUP: Final = "metadata.resource.k8s.io"
_ATTRIBUTES_MAX: Final = 32
_MOUNT_OPTIONS: Final = ("ro", "bind")
_ESCAPED: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""Characters that Go's encoder escapes; outside of texts JSON has none of them."""

FindAttributes = Callable[[DeviceId], Mapping[str, DeviceAttribute]]
"""Gives the published attributes of a device; empty when it is not known."""


def _find_none(device: DeviceId) -> Mapping[str, DeviceAttribute]:
    del device
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPolicy:
    """Which devices get a file, and in which versions.

    Args:
        for_all: Whether also devices get one for which the driver gave no metadata.
        attributes: Gives published attributes; those that the driver gave win over them.
        versions: Of `METADATA_VERSIONS`, in the order in which they are written.
    """

    for_all: bool = False
    attributes: FindAttributes = _find_none
    versions: tuple[str, ...] = METADATA_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """The file of one request.

    Args:
        request: Name of the request, without a sub-request.
        data: The content.
    """

    request: str
    data: bytes


def plan_metadata(
    request: PrepareRequest,
    prepared: PreparedDevices,
    *,
    driver: str,
    policy: MetadataPolicy,
    generations: Mapping[str, int] | None = None,
) -> tuple[MetadataFile, ...]:
    """Return the files of a claim: one for each request that has a device with metadata.

    Args:
        request: The claim.
        prepared: The driver's answer.
        driver: Name of the driver.
        policy: Which devices get a file.
        generations: By request, the how manieth content this is; the first one when it is left out.

    Raises:
        DriverAnswerError: A device has more attributes than readers accept, or one without a value.
    """
    by_request: dict[str, list[tuple[int, PreparedDevice]]] = {}
    for index, answer in enumerate(prepared.devices):
        by_request.setdefault(answer.device.request, []).append((index, answer))
    return tuple(
        MetadataFile(
            request=name,
            data=_encode(
                request,
                _describe(answers, driver, policy),
                answers,
                versions=policy.versions,
                generation=(generations or {}).get(name, 1),
            ),
        )
        for name, answers in by_request.items()
        if policy.for_all or any(answer.metadata is not None for _, answer in answers)
    )


def metadata_mount(request: PrepareRequest, name: str, *, driver: str, host_path: str) -> Mount:
    """Return the mount that brings the file of a request into the containers.

    Args:
        request: The claim.
        name: Name of the request, without a sub-request.
        driver: Name of the driver.
        host_path: Where the file is.
    """
    template = request.pod_claim_name
    folder = f"resourceclaimtemplates/{template}" if template else f"resourceclaims/{request.claim.name}"
    path = f"{CONTAINER_FOLDER}/{folder}/{name}/{driver}-metadata.json"
    return Mount(host_path=host_path, container_path=path, options=_MOUNT_OPTIONS)


def _describe(
    answers: Iterable[tuple[int, PreparedDevice]], driver: str, policy: MetadataPolicy
) -> list[dict[str, object]]:
    return [_describe_device(answer, f"devices[{index}].metadata", driver, policy) for index, answer in answers]


def _describe_device(answer: PreparedDevice, path: str, driver: str, policy: MetadataPolicy) -> dict[str, object]:
    device = answer.device.id
    published = policy.attributes(device) if policy.for_all else {}
    given = answer.metadata.attributes if answer.metadata is not None else {}
    attributes = {**published, **given}
    if len(attributes) > _ATTRIBUTES_MAX:
        raise DriverAnswerError(f"{path}.attributes", len(attributes), allowed=f"at most {_ATTRIBUTES_MAX}")
    described: dict[str, object] = {"driver": driver, "pool": device.pool, "name": device.device}
    if attributes:
        described["attributes"] = {
            name: _value(attributes[name], f"{path}.attributes[{name}]") for name in sorted(attributes)
        }
    network = answer.status.network if answer.status is not None else None
    if network is not None:
        described["networkData"] = _network(network)
    return described


def _value(attribute: DeviceAttribute, path: str) -> object:
    value = msgspec.to_builtins(encode_attribute(attribute))
    if not value:
        raise DriverAnswerError(path, attribute.value, allowed="an attribute with a value")
    return value


def _network(network: NetworkData) -> dict[str, object]:
    facts: dict[str, object] = {
        "interfaceName": network.interface_name,
        "ips": list(network.ips),
        "hardwareAddress": network.hardware_address,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _encode(
    request: PrepareRequest,
    devices: list[dict[str, object]],
    answers: Sequence[tuple[int, PreparedDevice]],
    *,
    versions: tuple[str, ...],
    generation: int,
) -> bytes:
    """Return the content of a file, letter by letter as upstream writes it."""
    chosen = answers[0][1].device
    claim = request.claim
    body: dict[str, object] = {
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": generation},
        **({"podClaimName": request.pod_claim_name} if request.pod_claim_name else {}),
        "requests": [
            {
                "name": f"{chosen.request}/{chosen.subrequest}" if chosen.subrequest else chosen.request,
                "devices": devices,
            }
        ],
    }
    heads = ({"kind": "DeviceMetadata", "apiVersion": f"{_GROUP}/{version}"} for version in versions)
    texts = (json.dumps({**head, **body}, indent=2, ensure_ascii=False) for head in heads)
    return "".join(f"{text}\n" for text in texts).translate(_ESCAPED).encode()
