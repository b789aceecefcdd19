"""How an agent works: what it offers of each driver in which way, and how often it looks at things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.daemons.agent_driver import LoopOptions
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.holding import HoldPolicy
from claimsmith.node.podresources import ForeignRule
from claimsmith.node.sweep import SweepPolicy
from claimsmith.publish.labels import LabelOptions
from claimsmith.publish.reports import ReportPace

__all__ = ["AgentOptions", "FrontEnds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEnds:
    """In which ways the devices of one driver are offered. All of them are made from one inventory.

    Args:
        dra: Whether they are published in ResourceSlices and prepared for claims.
        device_plugin: How they are offered to the kubelet as extended resources; None: not at all.
        foreign: How devices are recognised that another device plugin has given away, which are then tainted; None:
            nobody looks.
        labels: Whether the labels of the node tell of them.
        amounts: Extended resources that the node's status gets without a device plugin: as many of each as its rule
            takes devices.
        report: How often a DeviceReport is written; None: there is none.
        loop: How often the driver is asked, and how health becomes taints; None: as all drivers of the agent.
    """

    dra: bool = True
    device_plugin: DevicePluginOptions | None = None
    foreign: ForeignRule | None = None
    labels: bool = False
    amounts: tuple[ResourceRule, ...] = ()
    report: ReportPace | None = None
    loop: LoopOptions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How an agent works.

    Args:
        loop: How often drivers are asked, and how health becomes taints.
        instance_uid: uid of the agent's pod; needed only for two at a time, as during a rolling update.
        boot_id: Which boot of the machine this is; None: ask the kernel.
        hold: How long a prepare that can't succeed yet waits.
        sweep: How often to look for claims that are over.
        device_metadata: Whether programs in containers get a file about each device, also where the driver gives none.
        fronts: In which ways the devices of a driver are offered, by the driver's name; others by claims alone.
        labels: Which labels the node gets of drivers that tell theirs.
        keeps_capacity: Whether amounts of extended resources that people give to the node are kept, whoever rewrites
            its status; those of drivers always are.
    """

    loop: LoopOptions = field(default_factory=LoopOptions)
    instance_uid: str = ""
    boot_id: str | None = None
    hold: HoldPolicy = field(default_factory=HoldPolicy)
    sweep: SweepPolicy = field(default_factory=SweepPolicy)
    device_metadata: bool = False
    fronts: Mapping[str, FrontEnds] = field(default_factory=dict)
    labels: LabelOptions = field(default_factory=LabelOptions)
    keeps_capacity: bool = False
