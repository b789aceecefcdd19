"""A claim's parameters are decoded strictly, the claim's own over its class's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest

from claimsmith.errors import FieldError
from claimsmith.model.prepared import DeviceConfiguration, RequestedDevice
from claimsmith.sdk.opaque import decode_opaque
from claimsmith.sdk.strict import parse_strictly
from claimsmith.testing import builders as b


class Sharing(msgspec.Struct, rename="camel"):
    strategy: str = "Exclusive"
    time_slice_ms: int | None = None


class Settings(msgspec.Struct, rename="camel"):
    sharing: Sharing = msgspec.field(default_factory=Sharing)
    visible_cores: list[int] = msgspec.field(default_factory=list)


@dataclass
class Plain:
    mode: str
    limits: dict[str, int] = field(default_factory=dict)


def device(*configs: tuple[str, object]) -> RequestedDevice:
    parts = (DeviceConfiguration(source=source, parameters=parameters) for source, parameters in configs)
    return replace(b.requested("gpu-0"), configs=tuple(parts))


def test_without_parameters_the_defaults_hold() -> None:
    assert decode_opaque(device(), Settings) == Settings()


def test_a_claim_wins_over_its_class_field_by_field() -> None:
    asked = device(
        ("FromClass", {"sharing": {"strategy": "TimeSlicing", "timeSliceMs": 5}, "visibleCores": [1, 2]}),
        ("FromClaim", {"sharing": {"timeSliceMs": 9}, "visibleCores": [3]}),
    )

    assert decode_opaque(asked, Settings) == Settings(
        sharing=Sharing(strategy="TimeSlicing", time_slice_ms=9), visible_cores=[3]
    )


def test_api_version_and_kind_are_no_parameters() -> None:
    asked = device(("FromClaim", {"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", "visibleCores": [1]}))

    assert decode_opaque(asked, Settings).visible_cores == [1]


def test_a_dataclass_will_do() -> None:
    assert decode_opaque(device(("FromClaim", {"mode": "a", "limits": {"x": 1}})), Plain) == Plain("a", {"x": 1})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"sharing": {"strategie": "x"}},
            r"claim config\[0\]\.opaque\.parameters\.sharing\.strategie: found",
        ),
        ({"sharing": {"strategie": "x"}}, r"allowed strategy, timeSliceMs; write strategy"),
        (
            {"sharing": {"timeSliceMs": "5"}},
            r"sharing\.timeSliceMs: found '5', allowed a whole number or nothing",
        ),
        ({"sharing": {"strategy": 5}}, r"sharing\.strategy: found 5, allowed text; put the value in quotes"),
        ({"visibleCores": [1, "2"]}, r"visibleCores\[1\]: found '2', allowed a whole number"),
        ([], r"opaque\.parameters: found \[\], allowed an object"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_path(parameters: object, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        decode_opaque(device(("FromClaim", parameters)), Settings)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(FieldError, match=r"parameters\.mode: found null, allowed a value; add the field"):
        decode_opaque(device(("FromClass", {})), Plain)


def test_a_place_in_a_file_is_put_in_front() -> None:
    with pytest.raises(FieldError, match=r"gpus\.yaml, line 3: spec\.sharing\.strategy: found true, allowed text"):
        parse_strictly({"sharing": {"strategy": True}}, Settings, path="spec", locate=lambda _: "gpus.yaml, line 3")
