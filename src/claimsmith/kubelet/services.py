"""The methods of the kubelet's plugin protocols, with the types of their messages.

Both sides read the same table: who serves takes the decoder of the request and the encoder of the response, who calls
takes the other two. So no generated service code is needed, and every call is typed.

Source: pkg/apis in k8s.io/kubelet v0.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as deviceplugin
from claimsmith.kubelet import dra_health_v1_pb2 as health_v1
from claimsmith.kubelet import dra_health_v1alpha1_pb2 as health_v1alpha1
from claimsmith.kubelet import dra_v1_pb2 as dra_v1
from claimsmith.kubelet import dra_v1beta1_pb2 as dra_v1beta1
from claimsmith.kubelet import pluginregistration_v1_pb2 as registration
from claimsmith.kubelet import podresources_v1_pb2 as podresources

__all__ = [
    "ALLOCATE",
    "DEVICE_PLUGIN_TYPE",
    "DEVICE_PLUGIN_VERSION",
    "DRA_PLUGIN_TYPE",
    "DRA_V1",
    "DRA_V1BETA1",
    "GET_ALLOCATABLE",
    "GET_INFO",
    "GET_OPTIONS",
    "GET_POD_RESOURCES",
    "GET_PREFERRED",
    "HEALTH_V1",
    "HEALTH_V1ALPHA1",
    "LIST_AND_WATCH",
    "LIST_POD_RESOURCES",
    "NOTIFY",
    "PREPARE_V1",
    "PREPARE_V1BETA1",
    "PRE_START",
    "REGISTER_DEVICES",
    "UNPREPARE_V1",
    "UNPREPARE_V1BETA1",
    "WATCH_V1",
    "WATCH_V1ALPHA1",
    "Method",
]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

DRA_PLUGIN_TYPE: Final = "DRAPlugin"
"""Type with which a DRA driver registers."""
DEVICE_PLUGIN_TYPE: Final = "DevicePlugin"
"""Type with which a device plugin registers when it uses the plugin watcher."""
DEVICE_PLUGIN_VERSION: Final = "v1beta1"
"""The only version of the device plugin protocol."""

DRA_V1: Final = "v1.DRAPlugin"
DRA_V1BETA1: Final = "v1beta1.DRAPlugin"
HEALTH_V1: Final = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1: Final = "v1alpha1.DRAResourceHealth"
"""Names by which a driver lists its services at registration; for DRA they are not those on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[Request, Response]):
    """One method of a gRPC service.

    Args:
        service: Full name of the service on the wire.
        streams: Whether the server answers with a stream of responses.
    """

    service: str
    name: str
    request: type[Request]
    response: type[Response]
    streams: bool = False

    @property
    def path(self) -> str:
        """The method as gRPC names it: `/service/method`."""
        return f"/{self.service}/{self.name}"


_REGISTRATION: Final = "pluginregistration.Registration"
_DRA: Final = "k8s.io.kubelet.pkg.apis.dra.{}.DRAPlugin"
_DEVICES: Final = "v1beta1.DevicePlugin"
_LISTER: Final = "v1.PodResourcesLister"

GET_INFO: Final = Method(
    service=_REGISTRATION, name="GetInfo", request=registration.InfoRequest, response=registration.PluginInfo
)
NOTIFY: Final = Method(
    service=_REGISTRATION,
    name="NotifyRegistrationStatus",
    request=registration.RegistrationStatus,
    response=registration.RegistrationStatusResponse,
)
PREPARE_V1: Final = Method(
    service=_DRA.format("v1"),
    name="NodePrepareResources",
    request=dra_v1.NodePrepareResourcesRequest,
    response=dra_v1.NodePrepareResourcesResponse,
)
UNPREPARE_V1: Final = Method(
    service=_DRA.format("v1"),
    name="NodeUnprepareResources",
    request=dra_v1.NodeUnprepareResourcesRequest,
    response=dra_v1.NodeUnprepareResourcesResponse,
)
PREPARE_V1BETA1: Final = Method(
    service=_DRA.format("v1beta1"),
    name="NodePrepareResources",
    request=dra_v1beta1.NodePrepareResourcesRequest,
    response=dra_v1beta1.NodePrepareResourcesResponse,
)
UNPREPARE_V1BETA1: Final = Method(
    service=_DRA.format("v1beta1"),
    name="NodeUnprepareResources",
    request=dra_v1beta1.NodeUnprepareResourcesRequest,
    response=dra_v1beta1.NodeUnprepareResourcesResponse,
)
WATCH_V1: Final = Method(
    service=HEALTH_V1,
    name="NodeWatchResources",
    request=health_v1.NodeWatchResourcesRequest,
    response=health_v1.NodeWatchResourcesResponse,
    streams=True,
)
WATCH_V1ALPHA1: Final = Method(
    service=HEALTH_V1ALPHA1,
    name="NodeWatchResources",
    request=health_v1alpha1.NodeWatchResourcesRequest,
    response=health_v1alpha1.NodeWatchResourcesResponse,
    streams=True,
)
REGISTER_DEVICES: Final = Method(
    service="v1beta1.Registration",
    name="Register",
    request=deviceplugin.RegisterRequest,
    response=deviceplugin.Empty,
)
GET_OPTIONS: Final = Method(
    service=_DEVICES,
    name="GetDevicePluginOptions",
    request=deviceplugin.Empty,
    response=deviceplugin.DevicePluginOptions,
)
LIST_AND_WATCH: Final = Method(
    service=_DEVICES,
    name="ListAndWatch",
    request=deviceplugin.Empty,
    response=deviceplugin.ListAndWatchResponse,
    streams=True,
)
GET_PREFERRED: Final = Method(
    service=_DEVICES,
    name="GetPreferredAllocation",
    request=deviceplugin.PreferredAllocationRequest,
    response=deviceplugin.PreferredAllocationResponse,
)
ALLOCATE: Final = Method(
    service=_DEVICES,
    name="Allocate",
    request=deviceplugin.AllocateRequest,
    response=deviceplugin.AllocateResponse,
)
PRE_START: Final = Method(
    service=_DEVICES,
    name="PreStartContainer",
    request=deviceplugin.PreStartContainerRequest,
    response=deviceplugin.PreStartContainerResponse,
)
LIST_POD_RESOURCES: Final = Method(
    service=_LISTER,
    name="List",
    request=podresources.ListPodResourcesRequest,
    response=podresources.ListPodResourcesResponse,
)
GET_ALLOCATABLE: Final = Method(
    service=_LISTER,
    name="GetAllocatableResources",
    request=podresources.AllocatableResourcesRequest,
    response=podresources.AllocatableResourcesResponse,
)
GET_POD_RESOURCES: Final = Method(
    service=_LISTER,
    name="Get",
    request=podresources.GetPodResourcesRequest,
    response=podresources.GetPodResourcesResponse,
)
