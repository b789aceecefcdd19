"""What scripts about one node can do, and which states they can ask for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from claimsmith.api.kinds import EVENT, RESOURCE_SLICE
from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry, MergedEdits
from claimsmith.errors import FieldError, PodStartError
from tests.cases.node_stage import GIVEN, Call, NodeStage, node_stage
from tests.cases.scripts import Action, Check, Play, Step
from tests.scenarios.embedded_node import NODE
from tests.scenarios.published_node import list_slices

_NO_DEVICES: Final = "no device is published"


# --- actions ----------------------------------------------------------------------------------------------------------


async def _start(stage: NodeStage, step: Step) -> None:
    stage.event()
    await stage.start_driver()


async def _stop(stage: NodeStage, step: Step) -> None:
    if step.get("how", "power-loss") != "power-loss":
        raise FieldError("how", step["how"], allowed="power-loss", hint="teach the stage this way")
    await stage.stop_driver(killed="how" in step)


async def _kill(stage: NodeStage, step: Step) -> None:
    await stage.stop_driver(killed=True)


async def _prepare(stage: NodeStage, step: Step) -> None:
    if stage.agent is None:
        await stage.start_driver()
    stage.calls = [await stage.prepare(step["claim"]) for _ in range(step.get("times", 1))]


async def _unprepare(stage: NodeStage, step: Step) -> None:
    stage.calls = [await stage.unprepare(step["claim"]) for _ in range(step.get("times", 1))]


async def _prepare_parallel(stage: NodeStage, step: Step) -> None:
    stage.rounds = []
    for _ in range(step["repeat"]):
        calls = await asyncio.gather(*(stage.prepare(claim) for claim in step["claims"]))
        stage.rounds.append(sum(not call.error for call in calls))
        for claim in step["claims"]:
            await stage.unprepare(claim)


async def _restart_kubelet(stage: NodeStage, step: Step) -> None:
    stage.event()
    await stage.stop_kubelet()
    await stage.start_kubelet()


async def _delete_slices(stage: NodeStage, step: Step) -> None:
    stage.event()
    if step["of"] != NODE:
        raise FieldError("of", step["of"], allowed=NODE, hint="correct the name of the node")
    for item in await list_slices(stage.node.client):
        await stage.node.client.delete(RESOURCE_SLICE, item.name)
    stage.transport.resume()


async def _edit_slice(stage: NodeStage, step: Step) -> None:
    stage.event()
    patch = [
        {"op": "replace", "path": "/" + path.replace("[", "/").replace("]", "").replace(".", "/"), "value": value}
        for path, value in step["set"].items()
    ]
    (item,) = await list_slices(stage.node.client)
    await stage.node.client.patch(RESOURCE_SLICE, item.name, patch, patch_type="json")
    stage.transport.resume()


async def _break_watch(stage: NodeStage, step: Step) -> None:
    if step["code"] != 410 or step["form"] not in ("error-event", "http-status"):
        raise FieldError("form", step["form"], allowed="410 as error-event or http-status", hint="teach the stage")
    stage.transport.break_watches(step["form"])


async def _delete_claim(stage: NodeStage, step: Step) -> None:
    await stage.delete_claim(step["name"])


async def _create_claim(stage: NodeStage, step: Step) -> None:
    await stage.create_claim({"name": step["name"], "uid": step["uid"], "devices": step["allocated"]})


async def _api_down(stage: NodeStage, step: Step) -> None:
    stage.transport.down = True


async def _api_up(stage: NodeStage, step: Step) -> None:
    stage.transport.down, stage.transport.status = False, 0


async def _api_answers(stage: NodeStage, step: Step) -> None:
    stage.transport.status = step["status"]


async def _discover(stage: NodeStage, step: Step) -> None:
    stage.event()
    stage.driver.become(step["devices"])


async def _damage(stage: NodeStage, step: Step) -> None:
    """Damage the file as a crash, a bad disk or a person does."""
    path = stage.state_folder / f"{step['file']}.json"
    data = path.read_bytes()
    match step["how"]:
        case "truncate-to-0":
            path.write_bytes(b"")
        case "truncate-to-half":
            path.write_bytes(data[: len(data) // 2])
        case "random-bytes":
            path.write_bytes(bytes((value * 131 + index * 71) % 256 for index, value in enumerate(data)))
        case "wrong-checksum":
            path.write_bytes(data.replace(b'"finished":true', b'"finished":false'))
        case "replaced-by-directory":
            path.unlink()
            path.mkdir()
        case how:
            raise FieldError("how", how, allowed="a kind of damage that the stage knows", hint="teach the stage this")


async def _set_boot_id(stage: NodeStage, step: Step) -> None:
    stage.boot_id = step["to"]


async def _empty(stage: NodeStage, step: Step) -> None:
    if step["path"] != "cdi":
        raise FieldError("path", step["path"], allowed="cdi", hint="teach the stage this folder")
    shutil.rmtree(stage.node.paths.cdi)
    stage.node.paths.cdi.mkdir()


async def _change_node(stage: NodeStage, step: Step) -> None:
    nodes = stage.driver.nodes
    nodes[step["device"]] = tuple(replace(item, minor=step["minor"]) for item in nodes[step["device"]])


# --- states -----------------------------------------------------------------------------------------------------------


def _compare(found: object, wanted: object) -> str:
    return "" if found == wanted else f"{found}, right is {wanted}"


async def _slices(stage: NodeStage, wanted: int) -> str:
    return _compare(len(await list_slices(stage.node.client)), wanted)


async def _devices(stage: NodeStage, wanted: list[str]) -> str:
    found = [device.name for item in await list_slices(stage.node.client) for device in item.devices]
    return _compare(found, wanted)


async def _slice(stage: NodeStage, wanted: Mapping[str, str]) -> str:
    shown = {device.name: device for item in await list_slices(stage.node.client) for device in item.devices}
    if not shown:
        return _NO_DEVICES
    for name, rule in wanted.items():
        if rule != "absent-or-tainted":
            raise FieldError("slice", rule, allowed="absent-or-tainted", hint="teach the stage this rule")
        if name in shown and not shown[name].taints:
            return f"{name} is published without a taint"
    return ""


async def _running(stage: NodeStage, wanted: bool) -> str:
    return _compare(stage.agent is not None, wanted)


async def _ready(stage: NodeStage, wanted: bool) -> str:
    usable = stage.agent is not None and stage.node.kubelet.plugins.is_usable(stage.driver.name)
    return _compare(usable, wanted)


async def _restarts(stage: NodeStage, wanted: int) -> str:
    return _compare(stage.failed_starts, wanted)


async def _few_writes(stage: NodeStage, wanted: int) -> str:
    marks = [*stage.writes_at_events, stage.transport.written]
    most = max(after - before for before, after in itertools.pairwise(marks))
    return "" if most <= wanted else f"{most} writes after one event, allowed {wanted}"


async def _worked(stage: NodeStage, wanted: bool) -> str:
    errors = [call.error for call in stage.calls if call.error]
    return _compare(not errors, wanted) and f"{errors or 'no error'}, right is {'success' if wanted else 'an error'}"


async def _error_mentions(stage: NodeStage, wanted: list[str]) -> str:
    text = "; ".join(call.error for call in stage.calls)
    missing = [word for word in wanted if word not in text and stage.uid(word) not in text]
    return f"the error does not mention {', '.join(missing)}: {text or 'no error'}" if missing else ""


def _resolve(stage: NodeStage, call: Call) -> MergedEdits:
    return CdiRegistry(stage.node.paths.cdi).resolve(call.cdi_ids)


async def _resolvable(stage: NodeStage, wanted: bool) -> str:
    try:
        found = all(call.cdi_ids and _resolve(stage, call) for call in stage.calls)
    except PodStartError as error:
        return str(error)
    return _compare(bool(found), wanted)


async def _device_node(stage: NodeStage, wanted: Mapping[str, Any]) -> str:
    nodes = [node for call in stage.calls for node in _resolve(stage, call).device_nodes]
    fits = any(all(getattr(node, name) == value for name, value in wanted.items()) for node in nodes)
    return "" if fits else f"device nodes {nodes}, right is {wanted}"


async def _same_ids(stage: NodeStage, wanted: bool) -> str:
    same = all(call.cdi_ids == stage.first_ids[call.claim] for call in stage.calls)
    return _compare(same, wanted)


async def _identical(stage: NodeStage, wanted: bool) -> str:
    return _compare(all(call == stage.calls[0] for call in stage.calls), wanted)


async def _ids_differ(stage: NodeStage, wanted: list[str]) -> str:
    ids = [stage.first_ids[claim] for claim in wanted]
    return "" if len(set(ids)) == len(ids) else f"CDI ids {ids}, right are different ones"


async def _cdi_files(stage: NodeStage, wanted: int) -> str:
    return _compare(len(list(stage.node.paths.cdi.iterdir())), wanted)


async def _checkpoint_claims(stage: NodeStage, wanted: int) -> str:
    return "the driver does not run" if stage.agent is None else _compare(stage.agent.states()[0].prepared, wanted)


async def _nothing_cleaned(stage: NodeStage, wanted: bool) -> str:
    """The pass has asked and got no answer, and all is still there."""
    asked = any("/resourceclaims/" in path for path in stage.transport.failed)
    if not asked:
        return "the API server has not been asked for a claim yet"
    return _compare(bool(list(stage.node.paths.cdi.iterdir())), wanted)


async def _event(stage: NodeStage, wanted: str) -> str:
    found = [item.get("reason") for item in (await stage.node.client.list(EVENT)).items]
    return "" if wanted in found else f"events {found}, right is one {wanted}"


async def _damaged_kept(stage: NodeStage, wanted: bool) -> str:
    return _compare(bool(list(stage.state_folder.glob("checkpoint.json.damaged-*"))), wanted)


async def _rounds(stage: NodeStage, wanted: int) -> str:
    return _compare(set(stage.rounds), {wanted})


# --- variants ---------------------------------------------------------------------------------------------------------


def _without_reboot(steps: Sequence[Step]) -> list[Step]:
    """Only the CDI file goes; the next prepare call is the last."""
    kept = [step for step in steps if step.get("do") in ("kubelet.prepare", "empty-directory")]
    return kept[: [step["do"] for step in kept].index("empty-directory") + 2]


def _device_stays_away(steps: Sequence[Step]) -> list[Step]:
    """The driver finds the first device no more; the next prepare call is the last."""
    names = [step.get("do") for step in steps]
    start = names.index("start-driver")
    gone: list[Step] = [{"do": "discover-returns", "devices": ["gpu-1"]}]
    return [*steps[:start], *gone, *steps[start : names.index("kubelet.prepare", start) + 1]]


def _failing_pass(steps: Sequence[Step]) -> list[Step]:
    """The API server answers 500 from before the driver's start; that start is the last."""
    start = max(index for index, step in enumerate(steps) if step.get("do") == "start-driver")
    failing: list[Step] = [{"do": "api.answers", "status": 500}]
    return [*steps[:start], *failing, steps[start]]


_CLAIM: Final = frozenset({"claim", "times"})

_ACTIONS: Final = {
    "start-driver": Action(act=_start),
    "stop-driver": Action(act=_stop, fields=frozenset({"how"})),
    "kill-driver": Action(act=_kill),
    "kubelet.prepare": Action(act=_prepare, fields=_CLAIM),
    "kubelet.unprepare": Action(act=_unprepare, fields=_CLAIM),
    "kubelet.prepare-parallel": Action(act=_prepare_parallel, fields=frozenset({"claims", "repeat"})),
    "kubelet.restart": Action(act=_restart_kubelet),
    "api.delete-slices": Action(act=_delete_slices, fields=frozenset({"of", "while"})),
    "api.edit-slice": Action(act=_edit_slice, fields=frozenset({"set"})),
    "api.watch-error": Action(act=_break_watch, fields=frozenset({"code", "form"})),
    "api.delete-claim": Action(act=_delete_claim, fields=frozenset({"name", "force"})),
    "api.create-claim": Action(act=_create_claim, fields=frozenset({"name", "uid", "allocated"})),
    "api.down": Action(act=_api_down),
    "api.up": Action(act=_api_up),
    "api.answers": Action(act=_api_answers, fields=frozenset({"status"})),
    "discover-returns": Action(act=_discover, fields=frozenset({"devices"})),
    "damage": Action(act=_damage, fields=frozenset({"file", "how"})),
    "set-boot-id": Action(act=_set_boot_id, fields=frozenset({"to"})),
    "empty-directory": Action(act=_empty, fields=frozenset({"path"})),
    "change-device-node": Action(act=_change_node, fields=frozenset({"device", "minor"})),
}

_CHECKS: Final[Mapping[str, Check]] = {
    "slices": _slices,
    "devices": _devices,
    "slice": _slice,
    "driver-running": _running,
    "driver-ready": _ready,
    "restarts": _restarts,
    "api-writes-per-event-at-most": _few_writes,
    "prepare-ok": _worked,
    "unprepare-ok": _worked,
    "prepare-error-mentions": _error_mentions,
    "cdi-ids-resolvable": _resolvable,
    "cdi-device-node": _device_node,
    "same-cdi-ids-as-before": _same_ids,
    "identical-answers": _identical,
    "cdi-ids-differ": _ids_differ,
    "cdi-files": _cdi_files,
    "checkpoint-claims": _checkpoint_claims,
    "nothing-cleaned": _nothing_cleaned,
    "event": _event,
    "damaged-file-kept": _damaged_kept,
    "each-round-succeeded": _rounds,
}


@contextlib.asynccontextmanager
async def _enter(given: Mapping[str, Any]) -> AsyncIterator[NodeStage]:
    """Enter the stage, with the claims prepared that the script begins with."""
    async with node_stage(given) as stage:
        for claim in given.get("prepared") or ():
            stage.event()
            await stage.start_driver()
            await stage.prepare({**claim, "name": claim["claim"]})
        yield stage


NODE_PLAY: Final = Play(
    given=GIVEN,
    actions=_ACTIONS,
    checks=_CHECKS,
    enter=_enter,
    variants={
        "no reboot, only the CDI file removed": _without_reboot,
        "gpu-0 does not come back after the reboot": _device_stays_away,
        "the API answers 500 during the periodic pass": _failing_pass,
    },
)
