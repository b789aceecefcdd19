"""The agent's configuration file: what it says becomes options, and what it can't say is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.daemons.agent_config import (
    AgentConfig,
    ConfiguredDriver,
    build_label_options,
    create_configured,
    plugin_config,
    read_agent_config,
)
from claimsmith.errors import ConfigError, FieldError, InputError

HEAD = "apiVersion: claimsmith.dev/v1alpha1\nkind: AgentConfiguration\n"
DEVICES = """---
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
spec: {driver: gpu.example.com, gpus: [{model: T4}]}
---
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
spec: {driver: nic.example.com, nics: [{bandwidth: 10G}]}
"""


def read(tmp_path: Path, text: str) -> AgentConfig:
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    return read_agent_config(file)


def spec(*lines: str) -> str:
    return f"{HEAD}spec:\n" + "".join(f"  {line}\n" for line in lines)


def driver(*lines: str) -> str:
    """A configuration with one driver, `gpu.example.com` of the plugin `simulated`."""
    rest = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}spec:\n  drivers:\n  - plugin: simulated\n    driver: gpu.example.com\n{rest}{DEVICES}"


def only(config: AgentConfig) -> ConfiguredDriver:
    (found,) = create_configured(config, node_name="node-a")
    return found


def test_without_a_word_devices_are_offered_by_claims_alone(tmp_path: Path) -> None:
    fronts = only(read(tmp_path, driver())).fronts

    assert fronts.dra
    assert (fronts.device_plugin, fronts.report, fronts.labels, fronts.amounts) == (None, None, False, ())


def test_what_foreign_plugins_gave_away_is_looked_for_unless_told_otherwise(tmp_path: Path) -> None:
    usual, off = only(read(tmp_path, driver())), only(read(tmp_path, driver("foreign: {enabled: false}")))

    assert usual.fronts.foreign is not None
    assert off.fronts.foreign is None


def test_every_way_of_offering_is_switched_by_itself(tmp_path: Path) -> None:
    text = driver(
        "dra: {enabled: false}",
        "devicePlugin: {resources: [{resource: example.com/gpu, replicas: 4, attributes: {n: 1}}], passing: edits}",
        "labels: true",
        "extendedResources: [{resource: example.com/counted}]",
        "deviceReport: {intervalSeconds: 5}",
        "rediscoverSeconds: 30",
        "notListed: NoExecute",
    )
    fronts = only(read(tmp_path, text)).fronts

    assert not fronts.dra
    assert fronts.device_plugin is not None
    assert fronts.device_plugin.passing == "edits"
    assert [(rule.resource, rule.replicas) for rule in fronts.device_plugin.rules] == [("example.com/gpu", 4)]
    assert fronts.labels
    assert [rule.resource for rule in fronts.amounts] == ["example.com/counted"]
    assert fronts.report is not None
    assert fronts.report.interval_s == 5
    assert fronts.loop is not None
    assert (fronts.loop.rediscover_s, fronts.loop.not_listed_effect) == (30, "NoExecute")


def test_a_section_that_is_not_enabled_is_off(tmp_path: Path) -> None:
    resources = "resources: [{resource: example.com/gpu}]"
    text = driver(f"devicePlugin: {{enabled: false, {resources}}}", "deviceReport: {enabled: false}")
    fronts = only(read(tmp_path, text)).fronts

    assert (fronts.device_plugin, fronts.report) == (None, None)


def test_all_drivers_of_a_plugin_are_taken_when_none_is_named(tmp_path: Path) -> None:
    config = read(tmp_path, spec("drivers: [{plugin: simulated}]") + DEVICES)

    assert [item.driver.name for item in create_configured(config, node_name="n")] == [
        "gpu.example.com",
        "nic.example.com",
    ]


def test_settings_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text("gpus: [{model: T4}]")
    config = read(tmp_path, spec("drivers: [{plugin: simulated, settings: [gpus.yaml]}]"))

    assert only(config).driver.name == "sim.claimsmith.dev"


def test_plugins_need_no_file(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text("gpus: [{model: T4}]")

    assert only(plugin_config(("simulated",), (file,))).driver.name == "sim.claimsmith.dev"


def test_label_options_are_those_of_the_node(tmp_path: Path) -> None:
    config = read(tmp_path, spec("labels: {prefix: example.com}", "drivers: [{plugin: simulated}]") + DEVICES)

    assert build_label_options(config).prefix == "example.com"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (driver("devicePlugn: {}"), 7, r"spec\.drivers\[0\]\.devicePlugn: .* write devicePlugin"),
        (driver("dra: {enabled: 1}"), 7, r"spec\.drivers\[0\]\.dra\.enabled: found 1, allowed true or false"),
        (driver("devicePlugin: {resources: [{resource: x}]}"), 7, r"devicePlugin\.resources\[0\]\.resource: found 'x'"),
        (
            driver("devicePlugin: {resources: [{resource: a.io/b, idAttribute: 1}]}"), 7,
            r"resources\[0\]\.idAttribute: found 1, allowed text",
        ),
        (driver("devicePlugin: {resources: []}"), 7, r"devicePlugin\.resources: found 'none', allowed at least one"),
        (
            driver("devicePlugin: {resources: [{resource: a.io/b, replicas: 0}]}"), 7,
            r"resources\[0\]\.replicas: found 0, allowed 1 to",
        ),
        (
            driver("devicePlugin: {resources: [{resource: a.io/b, selector: device.x}]}"), 7,
            r"resources\[0\]\.selector: found 'device.x', allowed an expression that compiles",
        ),
        (
            driver("devicePlugin: {resources: [{resource: a.io/b}, {resource: a.io/b}]}"), 7,
            r"devicePlugin\.resources: found 'a.io/b', allowed each resource once",
        ),
        (driver("extendedResources: [{resource: x}]"), 7, r"extendedResources\[0\]\.resource: found 'x'"),
        (driver("deviceReport: {intervalSeconds: 0}"), 7, r"intervalSeconds: found 0(\.0)?, allowed 0\.5 or more"),
        (driver("notListed: PreferNoSchedule"), 7, r"notListed: found .*PreferNoSchedule"),
        (driver("rediscoverSeconds: 0"), 7, r"rediscoverSeconds: found 0(\.0)?, allowed 1 or more"),
        (driver("health: {holdSecond: 1}"), 7, r"health\.holdSecond: .* write holdSeconds"),
        (spec("labels: {prefix: kubernetes.io}", "drivers: [{plugin: simulated}]"), 4, r"spec\.labels\.prefix: found"),
        (spec("drivers: []"), 4, r"spec\.drivers: found 'none', allowed at least one driver"),
        (spec("drivers: [{}]"), 4, r"spec\.drivers\[0\]\.plugin: found null, allowed a value"),
        (
            spec("drivers: [{plugin: a}, {plugin: a, driver: b}]"), 4,
            r"spec\.drivers\[1\]\.plugin: found \"'a' a second time\", allowed each driver once",
        ),
        (f"{HEAD}drivers: []\n", 3, r"drivers: .* write it below spec"),
        (HEAD.replace("v1alpha1", "v1") + "spec: {drivers: []}\n", 1, r"apiVersion: found 'claimsmith\.dev/v1'"),
    ],
)  # fmt: skip
def test_what_can_not_be_meant_is_refused_with_its_place(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(FieldError, match=message) as caught:
        read(tmp_path, text)

    assert caught.value.source == f"{tmp_path}/agent.yaml, document 1, line {line}"


def test_a_resource_of_two_drivers_is_refused(tmp_path: Path) -> None:
    plugin = "devicePlugin: {resources: [{resource: example.com/x}]}"
    text = spec(
        "drivers:",
        f"- {{plugin: simulated, driver: gpu.example.com, {plugin}}}",
        f"- {{plugin: simulated, driver: nic.example.com, {plugin}}}",
    )

    with pytest.raises(FieldError, match=r"spec\.drivers\[1\]: found 'resource example.com/x a second time'"):
        read(tmp_path, text)


def test_resources_of_a_plugin_with_two_drivers_must_name_one(tmp_path: Path) -> None:
    text = spec("drivers: [{plugin: simulated, devicePlugin: {resources: [{resource: example.com/x}]}}]") + DEVICES

    with pytest.raises(FieldError, match="allowed resources of one driver; name the driver"):
        create_configured(read(tmp_path, text), node_name="n")


def test_a_driver_that_the_plugin_does_not_have_is_refused(tmp_path: Path) -> None:
    text = spec("drivers: [{plugin: simulated, driver: other.example.com}]") + DEVICES

    with pytest.raises(FieldError, match=r"allowed gpu\.example\.com, nic\.example\.com"):
        create_configured(read(tmp_path, text), node_name="n")


@pytest.mark.parametrize("text", ["", DEVICES, f"{HEAD}---\n{HEAD}"])
def test_a_file_has_one_configuration(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="allowed one; begin with apiVersion"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        read_agent_config(tmp_path / "nowhere.yaml")
