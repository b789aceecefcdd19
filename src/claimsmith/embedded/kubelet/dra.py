"""Prepares and unprepares the claims of pods: each claim once, however many pods of the node use it.

Source: pkg/kubelet/cm/dra/manager.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from claimsmith.embedded.kubelet.claims import ClaimReader, UsableClaim, read_usable_claim
from claimsmith.embedded.kubelet.dra_checkpoint import ClaimState, decode_claims, encode_claims
from claimsmith.embedded.kubelet.plugins import ClaimCall, DraPlugin, DraPlugins
from claimsmith.embedded.kubelet.views import ContainerView, PodView
from claimsmith.errors import CheckpointError, PodStartError
from claimsmith.telemetry import get_logger, log_event

__all__ = ["PodClaims"]

_log = get_logger("embedded.kubelet")
_Key = tuple[str, str]


class PodClaims:
    """The claims that are prepared on one node.

    Args:
        plugins: The drivers.
        reader: Reads claims.
        file: Where it is kept which claims which pods use.
    """

    def __init__(self, plugins: DraPlugins, reader: ClaimReader, file: Path) -> None:
        self._plugins, self._reader, self._file = plugins, reader, file
        self._states: dict[_Key, ClaimState] = {}

    def load(self) -> bool:
        """Read the file; a damaged one counts as empty, since drivers keep their own.

        Return whether there was none: the machine is new to the kubelet, and has one from now on.
        """
        try:
            found = self._file if self._file.exists() else _hidden(self._file)
            states = decode_claims(found.read_bytes(), found)
        except FileNotFoundError:
            with suppress(PodStartError):
                self._save()
            return True
        except (OSError, CheckpointError) as error:
            log_event(_log, logging.WARNING, "The kubelet's claims can't be read", file=self._file, reason=error)
            return False
        for state in states:
            self._states[state.namespace, state.name] = state
        return False

    def states(self) -> tuple[ClaimState, ...]:
        """Return all claims that some pod uses."""
        return tuple(self._states.values())

    def find(self, namespace: str, name: str) -> ClaimState | None:
        """Return a claim that some pod uses; None when none does."""
        return self._states.get((namespace, name))

    def users(self, driver: str, devices: Collection[tuple[str, str]]) -> set[str]:
        """Return the uids of the pods that use one of a driver's devices, given by pool and name."""
        return {
            uid
            for state in self._states.values()
            if any((device.pool, device.device) in devices for device in state.devices.get(driver, ()))
            for uid in state.pods
        }

    def pods(self) -> set[str]:
        """Return the uids of all pods that use a claim."""
        return {uid for state in self._states.values() for uid in state.pods}

    async def prepare(self, pod: PodView) -> Mapping[str, list[str]]:
        """Prepare what is not prepared yet of a pod's claims; return CDI ids by container.

        Raises:
            PodStartError: A claim can't be used or written down, a driver is not registered, or it failed.
        """
        usable = await self._read_claims(pod)
        if not usable:
            return {}
        for claim in usable.values():
            for driver in claim.drivers:
                self._plugins.get_plugin(driver)
        batches = self._take(pod, usable)
        for plugin, calls in batches.items():
            prepared = await plugin.prepare(calls)
            for call in calls:
                state = self._states[call.namespace, call.name]
                state.devices[plugin.driver] = prepared[call.uid]
        for claim in usable.values():
            self._states[claim.call.namespace, claim.call.name].prepared = True
        if batches:
            self._save()
        return self._ids_of(pod, {name: claim.call for name, claim in usable.items()})

    def recall(self, pod: PodView) -> Mapping[str, list[str]]:
        """Return CDI ids by container of what was prepared for a pod before the kubelet was started anew."""
        found = {claim.pod_name: self.find(pod.namespace, claim.claim_name or "") for claim in pod.claims}
        return self._ids_of(pod, {name: state.call for name, state in found.items() if state is not None})

    async def unprepare(self, pod_uid: str) -> None:
        """Give up what a pod uses; claims that no other pod uses are unprepared. May be repeated.

        Raises:
            PodStartError: A driver is not registered, or failed, or the file can't be written.
        """
        batches: dict[str, list[ClaimCall]] = {}
        used, last = [state for state in self._states.values() if pod_uid in state.pods], []
        for state in used:
            if len(state.pods) > 1:
                state.pods.discard(pod_uid)
                continue
            state.unpreparing = True
            last.append(state)
            for driver in state.undo:
                batches.setdefault(driver, []).append(state.call)
        for driver, claims in batches.items():
            await self._plugins.get_plugin(driver).unprepare(claims)
        for state in last:
            if self._states.get((state.namespace, state.name)) is state:
                del self._states[state.namespace, state.name]
        if used:
            self._save()

    async def _read_claims(self, pod: PodView) -> dict[str, UsableClaim]:
        """Return the claims of a pod by the names that its containers use."""
        usable = {}
        for claim in pod.claims:
            if not claim.made:
                raise _failed(f"pod {pod}: ResourceClaim not created yet for pod claim {claim.pod_name}")
            if claim.claim_name is not None:
                usable[claim.pod_name] = await read_usable_claim(
                    self._reader, pod, claim.claim_name, from_template=claim.from_template
                )
        return usable

    def _take(self, pod: PodView, usable: Mapping[str, UsableClaim]) -> dict[DraPlugin, list[ClaimCall]]:
        """Note that a pod uses claims, on disk too, and return what each plugin must prepare."""
        for claim in usable.values():
            self._check_free(claim.call)
        batches: dict[DraPlugin, list[ClaimCall]] = {}
        for claim in usable.values():
            call = claim.call
            state = self._states.setdefault(
                (call.namespace, call.name), ClaimState(namespace=call.namespace, name=call.name, uid=call.uid)
            )
            state.pods.add(pod.uid)
            state.skips = claim.skips
            if not state.prepared:
                for driver in claim.drivers:
                    calls = batches.setdefault(self._plugins.get_plugin(driver), [])
                    if call not in calls:
                        calls.append(call)
        self._save()
        return batches

    def _check_free(self, call: ClaimCall) -> None:
        state = self._states.get((call.namespace, call.name))
        if state is None:
            return
        if state.uid != call.uid:
            raise _failed(
                f"old ResourceClaim with same name {call.name} and different UID {state.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        if state.unpreparing:
            raise _failed(f"ResourceClaim {call.name} is being unprepared")

    def _ids_of(self, pod: PodView, calls: Mapping[str, ClaimCall]) -> dict[str, list[str]]:
        return {
            container.name: self._container_ids(pod, container, calls)
            for container in (*pod.init_containers, *pod.containers)
        }

    def _container_ids(self, pod: PodView, container: ContainerView, calls: Mapping[str, ClaimCall]) -> list[str]:
        """Return the CDI ids of a container, each once: of the claims it names, and of its extended resources."""
        wanted = [(name, request) for name, request in container.claims if name in calls]
        wanted += [
            ("", request)
            for name, resource, request in pod.extended
            if name == container.name and resource in container.extended and "" in calls
        ]
        ids = []
        for name, request in wanted:
            call = calls[name]
            ids.extend(self._states[call.namespace, call.name].cdi_ids(request))
        return list(dict.fromkeys(ids))

    def _save(self) -> None:
        """Write the file; not flushed to the disk, since an embedded node ends with its machine.

        The old file is removed before the new one takes its name: to replace it would make the file system flush.

        Raises:
            PodStartError: It can't be written, as on a full disk.
        """
        hidden = _hidden(self._file)
        try:
            hidden.write_bytes(encode_claims(self._states.values()))
            self._file.unlink(missing_ok=True)
            hidden.rename(self._file)
        except OSError as error:
            reason = f"can't be written: {error.strerror or error}"
            raise _failed(f"file {self._file}: {reason}, allowed a folder with free space; make room") from error


def _hidden(file: Path) -> Path:
    return file.with_name(f".{file.name}")


def _failed(message: str) -> PodStartError:
    return PodStartError(f"prepare dynamic resources: {message}", reason="FailedPrepareDynamicResources")
