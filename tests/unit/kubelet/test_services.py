from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from claimsmith.kubelet import (
    deviceplugin_v1beta1_pb2,
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    pluginregistration_v1_pb2,
    podresources_v1_pb2,
    services,
)

MODULES = (
    deviceplugin_v1beta1_pb2,
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    pluginregistration_v1_pb2,
    podresources_v1_pb2,
)
METHODS = {value.path: value for value in vars(services).values() if isinstance(value, services.Method)}


def declared_methods(file: FileDescriptor) -> dict[str, MethodDescriptor]:
    return {
        f"/{service.full_name}/{method.name}": method
        for service in file.services_by_name.values()
        for method in service.methods
    }


DECLARED = {path: method for module in MODULES for path, method in declared_methods(module.DESCRIPTOR).items()}


def test_the_table_has_exactly_the_methods_of_the_protocols() -> None:
    assert set(METHODS) == set(DECLARED)


@pytest.mark.parametrize("path", sorted(DECLARED))
def test_a_method_has_the_messages_and_the_streaming_of_its_protocol(path: str) -> None:
    method, declared = METHODS[path], DECLARED[path]

    assert (method.request.DESCRIPTOR, method.response.DESCRIPTOR, method.streams) == (
        declared.input_type,
        declared.output_type,
        declared.server_streaming,
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_the_generated_code_loads_on_protobuf_6_33_and_later(module: object) -> None:
    text = Path(str(vars(module)["__file__"])).read_text(encoding="utf-8")

    assert "# Protobuf Python Version: 6.31.1" in text


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_each_protocol_file_names_its_origin_and_licence(module: object) -> None:
    proto = Path(str(vars(module)["__file__"]).replace("_pb2.py", ".proto")).read_text(encoding="utf-8")

    assert "Licensed under the Apache License" in proto
    assert "k8s.io/kubelet v0.37.2" in proto
