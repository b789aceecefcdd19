"""The configuration file of `claimsmith agent`: which drivers, and how each of them is offered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from claimsmith.api.manifests import Manifest
from claimsmith.daemons.agent_driver import LoopOptions
from claimsmith.daemons.agent_options import AgentOptions, FrontEnds
from claimsmith.daemons.agent_sections import (
    ConfigContent,
    DevicePluginSection,
    DriverSection,
    ForeignSection,
    ReportSection,
)
from claimsmith.errors import ConfigError, FieldError, InputError
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.podresources import ForeignRule
from claimsmith.publish.health_policy import parse_health_policy
from claimsmith.publish.labels import LabelOptions, parse_label_options
from claimsmith.publish.reports import ReportPace
from claimsmith.sdk.device_file import read_documents_of
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers
from claimsmith.sdk.settings import SETTINGS_API_VERSION
from claimsmith.sdk.strict import field_names, parse_strictly

__all__ = [
    "CONFIG_KIND",
    "AgentConfig",
    "ConfiguredDriver",
    "build_agent_options",
    "build_front_ends",
    "build_label_options",
    "create_configured",
    "parse_agent_config",
    "plugin_config",
    "read_agent_config",
    "read_config_files",
]

CONFIG_KIND: Final = "AgentConfiguration"
"""Kind of the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """A whole configuration.

    Args:
        content: What it says.
        documents: Other documents of the same file, which plugins may read as their settings.
        manifest: Where the configuration stands; None when there is no file.
        folder: Folder to which the names of settings files are relative.
    """

    content: ConfigContent
    documents: tuple[Manifest, ...] = ()
    manifest: Manifest | None = None
    folder: Path = Path()

    def refuse(self, path: str, found: object, *, allowed: str, hint: str) -> FieldError:
        """Return the error for a field of the configuration, such as `spec.drivers[0].plugin`."""
        return FieldError(path, found, allowed=allowed, hint=hint, source=self.locate(path))

    def locate(self, path: str) -> str:
        """Return where a field stands, for messages; empty without a file."""
        return "" if self.manifest is None else self.manifest.locate(path)

    def at(self, path: str, error: FieldError) -> FieldError:
        """Return an error of a value that is made from the section at a path, with the whole path and its place."""
        return self.refuse(f"{path}.{_camel(error.path)}", error.found, allowed=error.allowed, hint=error.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredDriver:
    """A driver, and how it is offered."""

    driver: Driver
    fronts: FrontEnds


def read_agent_config(path: Path) -> AgentConfig:
    """Return the configuration that a file holds.

    The file has one document of kind AgentConfiguration; others in it are settings for the plugins.

    Raises:
        InputError: A document can't be read, or a field is unknown, missing or wrong; the message names file, line
            and field.
        ConfigError: The file can't be read.
    """
    documents = read_documents_of(path)
    ours = [document for document in documents if document.object.get("kind") == CONFIG_KIND]
    if len(ours) != 1:
        found = f"{len(ours)} documents of kind {CONFIG_KIND}" if ours else f"no document of kind {CONFIG_KIND}"
        raise InputError(f"{path}: found {found}, allowed one; begin with apiVersion: {SETTINGS_API_VERSION}")
    others = tuple(document for document in documents if document is not ours[0])
    return parse_agent_config(ours[0], documents=others, folder=path.absolute().parent)


def parse_agent_config(
    manifest: Manifest, *, documents: tuple[Manifest, ...] = (), folder: Path = Path()
) -> AgentConfig:
    """Return the configuration that a document of kind AgentConfiguration holds.

    Args:
        manifest: The document.
        documents: Settings for the plugins that stand beside it.
        folder: Folder to which the names of settings files are relative.

    Raises:
        InputError: A field is unknown, missing or wrong; the message names file, line and field.
    """
    config = AgentConfig(content=_parse(manifest), documents=documents, manifest=manifest, folder=folder)
    _check(config)
    return config


def read_config_files(config: AgentConfig) -> Mapping[str, str]:
    """Return the configuration and the settings that it names, by file name, as a ConfigMap holds them.

    Raises:
        FieldError: A settings file is not beside the configuration.
        ConfigError: A file can't be read.
    """
    if config.manifest is None:
        return {}
    files = {Path(config.manifest.source).name: config.manifest.text}
    for index, driver in enumerate(config.content.drivers):
        for number, name in enumerate(driver.settings):
            if Path(name).name != name:
                path = f"spec.drivers[{index}].settings[{number}]"
                hint = "move it there, since both are mounted as one folder"
                raise config.refuse(path, name, allowed="a file beside the configuration", hint=hint)
            try:
                files[name] = (config.folder / name).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"file {config.folder / name}: {error}, allowed a readable text; correct it"
                ) from error
    return files


def plugin_config(plugins: tuple[str, ...], settings: tuple[Path, ...]) -> AgentConfig:
    """Return the configuration that needs no file: some plugins with the same settings files, all else as usual."""
    files = [str(path.absolute()) for path in settings]
    return AgentConfig(content=ConfigContent(drivers=[DriverSection(plugin=name, settings=files) for name in plugins]))


def create_configured(config: AgentConfig, *, node_name: str) -> tuple[ConfiguredDriver, ...]:
    """Return the drivers of a node.

    Raises:
        InputError: Settings of a plugin can't be used, or a driver is named that its plugin does not have.
        ConfigError: A plugin can't be loaded.
    """
    made = [
        item
        for index, chosen in enumerate(config.content.drivers)
        for item in _create(config, chosen, index=index, node_name=node_name)
    ]
    return tuple(made)


def build_agent_options(
    config: AgentConfig, drivers: Iterable[ConfiguredDriver], *, instance_uid: str = ""
) -> AgentOptions:
    """Return how an agent works.

    Args:
        config: The configuration.
        drivers: Its drivers, made.
        instance_uid: uid of the agent's pod.

    Raises:
        FieldError: A field is unknown, or holds what is not allowed.
    """
    return AgentOptions(
        instance_uid=instance_uid,
        device_metadata=config.content.device_metadata,
        fronts={item.driver.name: item.fronts for item in drivers},
        labels=build_label_options(config),
        keeps_capacity=config.content.keep_node_capacity,
    )


def build_label_options(config: AgentConfig) -> LabelOptions:
    """Return which labels the node gets.

    Raises:
        FieldError: A field is unknown, or holds what is not allowed.
    """
    return parse_label_options(config.content.labels, path="spec.labels", locate=config.locate)


def build_front_ends(config: AgentConfig, chosen: DriverSection, *, path: str) -> FrontEnds:
    """Return in which ways a driver's devices are offered.

    Args:
        config: The configuration, for messages.
        chosen: The driver's section.
        path: Where that stands, such as `spec.drivers[0]`.

    Raises:
        FieldError: A field holds what is not allowed.
    """
    report, plugin, foreign = chosen.device_report, chosen.device_plugin, chosen.foreign
    return FrontEnds(
        dra=chosen.dra.enabled,
        device_plugin=_build_plugin(config, plugin, path=f"{path}.devicePlugin") if plugin and plugin.enabled else None,
        foreign=_build_foreign(foreign) if foreign.enabled else None,
        labels=chosen.labels,
        amounts=tuple(
            _build_rule(
                config,
                f"{path}.extendedResources[{index}]",
                resource=item.resource,
                selector=item.selector,
                attributes=item.attributes,
            )
            for index, item in enumerate(chosen.extended_resources)
        ),
        report=_build_pace(config, report, path=f"{path}.deviceReport") if report and report.enabled else None,
        loop=LoopOptions(
            rediscover_s=_at_least(config, f"{path}.rediscoverSeconds", chosen.rediscover_seconds, 1.0),
            not_listed_effect=chosen.not_listed,
            health=parse_health_policy(chosen.health, path=f"{path}.health", locate=config.locate),
        ),
    )


def _camel(name: str) -> str:
    """Return the name of a field as it is in the file."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _build_plugin(config: AgentConfig, section: DevicePluginSection, *, path: str) -> DevicePluginOptions:
    rules = tuple(
        _build_rule(config, f"{path}.resources[{index}]", **msgspec.structs.asdict(item))
        for index, item in enumerate(section.resources)
    )
    if not rules:
        hint = "name one, or remove the section"
        raise config.refuse(f"{path}.resources", "none", allowed="at least one resource", hint=hint)
    try:
        return DevicePluginOptions(rules=rules, passing=section.passing, pre_start=section.pre_start)
    except FieldError as error:
        raise config.at(path, FieldError("resources", error.found, allowed=error.allowed, hint=error.hint)) from error


def _build_rule(config: AgentConfig, path: str, **fields: Any) -> ResourceRule:
    try:
        return ResourceRule(**fields)
    except FieldError as error:
        raise config.at(path, error) from error


def _build_foreign(section: ForeignSection) -> ForeignRule:
    return ForeignRule(resources=tuple(section.resources), attributes=tuple(section.attributes), names=section.names)


def _build_pace(config: AgentConfig, section: ReportSection, *, path: str) -> ReportPace:
    return ReportPace(interval_s=_at_least(config, f"{path}.intervalSeconds", section.interval_seconds, 0.5))


def _at_least(config: AgentConfig, path: str, found: float, least: float) -> float:
    if not least <= found < float("inf"):
        raise config.refuse(path, found, allowed=f"{least:g} or more", hint="correct the number")
    return found


def _parse(manifest: Manifest) -> ConfigContent:
    version = manifest.object.get("apiVersion")
    if version != SETTINGS_API_VERSION:
        where = manifest.locate("apiVersion")
        hint = f"write apiVersion: {SETTINGS_API_VERSION}"
        raise FieldError("apiVersion", version, allowed=SETTINGS_API_VERSION, hint=hint, source=where)
    known = ("apiVersion", "kind", "metadata", "spec")
    for name in manifest.object:
        if name not in known:
            where = manifest.locate(name)
            hint = "write it below spec" if name in field_names(ConfigContent) else "remove it"
            raise FieldError(name, "an unknown field", allowed=", ".join(known), hint=hint, source=where)
    spec = manifest.object.get("spec")
    return parse_strictly({} if spec is None else spec, ConfigContent, path="spec", locate=manifest.locate)


def _check(config: AgentConfig) -> None:
    """Refuse what the types allow but nobody can mean, before any driver is made."""
    if not config.content.drivers:
        raise config.refuse("spec.drivers", "none", allowed="at least one driver", hint="name a plugin")
    build_label_options(config)
    seen: set[tuple[str, str]] = set()
    resources: set[str] = set()
    for index, item in enumerate(config.content.drivers):
        path = f"spec.drivers[{index}]"
        fronts = build_front_ends(config, item, path=path)
        key = (item.plugin, item.driver)
        if key in seen or (item.plugin, "") in seen:
            found = f"{item.plugin!r} a second time"
            hint = "name the drivers of the plugin one by one, or remove the entry"
            raise config.refuse(f"{path}.plugin", found, allowed="each driver once", hint=hint)
        seen.add(key)
        offered = [rule.resource for rule in (fronts.device_plugin.rules if fronts.device_plugin else ())]
        for name in (*offered, *(rule.resource for rule in fronts.amounts)):
            if name in resources:
                hint = "choose another name for one of them"
                raise config.refuse(path, f"resource {name} a second time", allowed="each resource once", hint=hint)
            resources.add(name)


def _create(config: AgentConfig, chosen: DriverSection, *, index: int, node_name: str) -> Iterator[ConfiguredDriver]:
    files = tuple(config.folder / name for name in chosen.settings)
    context = DriverContext(node_name=node_name, settings_files=files, documents=config.documents)
    drivers = create_drivers(chosen.plugin, context)
    names = [driver.name for driver in drivers]
    if chosen.driver and chosen.driver not in names:
        allowed = ", ".join(names) or "none, since the plugin has no driver for this node"
        hint = "correct the name, or the plugin's settings"
        raise config.refuse(f"spec.drivers[{index}].driver", chosen.driver, allowed=allowed, hint=hint)
    fronts = build_front_ends(config, chosen, path=f"spec.drivers[{index}]")
    if fronts.device_plugin is not None and not chosen.driver and len(drivers) > 1:
        found, hint = ", ".join(names), "name the driver that they are of"
        allowed = "resources of one driver"
        raise config.refuse(f"spec.drivers[{index}].devicePlugin", found, allowed=allowed, hint=hint)
    for driver in drivers:
        if not chosen.driver or driver.name == chosen.driver:
            yield ConfiguredDriver(driver=driver, fronts=fronts)
