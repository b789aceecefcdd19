from __future__ import annotations

import asyncio

import pytest

from claimsmith.api.kinds import NODE, POD
from claimsmith.kube.client import ObjectList
from claimsmith.kube.informers import Informers
from tests.unit.kube.scripted import ScriptedSource


def decode(obj: dict[str, object]) -> int:
    return len(obj)


def decode_otherwise(obj: dict[str, object]) -> str:
    return str(obj)


def test_two_callers_share_one_reflector() -> None:
    informers = Informers(ScriptedSource([], []))

    assert informers.of(POD, decode) is informers.of(POD, decode)


def test_a_second_form_of_one_kind_is_refused() -> None:
    informers = Informers(ScriptedSource([], []))
    informers.of(POD, decode)

    with pytest.raises(ValueError, match="v1 Pod: found a second decoder"):
        informers.of(POD, decode_otherwise)


def test_what_is_not_read_yet_is_named() -> None:
    informers = Informers(ScriptedSource([], []))
    informers.of(POD, decode)

    assert informers.list_missing() == ("pods: not read yet",)


async def test_what_is_read_is_missing_no_longer() -> None:
    informers = Informers(ScriptedSource([ObjectList(items=[], resource_version="1")], []))
    informers.of(POD, decode)
    task = asyncio.create_task(informers.run())
    await asyncio.wait_for(informers.wait_synced(), 60)
    task.cancel()

    assert informers.list_missing() == ()


async def test_a_kind_asked_for_later_is_followed_as_well() -> None:
    empty = ObjectList(items=[], resource_version="1")
    informers = Informers(ScriptedSource([empty, empty], []))
    informers.of(POD, decode)
    task = asyncio.create_task(informers.run())
    await asyncio.wait_for(informers.wait_synced(), 60)
    late = informers.of(NODE, decode)
    await asyncio.wait_for(late.wait_synced(), 60)
    task.cancel()

    assert late.is_synced
