"""Whatever is wrong with a selector: what lint proposes compiles, and fails on no device that it is asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.allocate.lint.check import lint_cluster
from claimsmith.allocate.lint.correcting import Corrector, compile_selector
from claimsmith.allocate.lint.published import Published
from claimsmith.allocate.lint.selectors import lint_selector
from claimsmith.cel import Program
from claimsmith.errors import CelRuntimeError
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import claim, device, klass, request, slice_, snapshot
from tests.property.typed_selectors import selectors

VALUES = st.one_of(
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(["a", "ab", "1.0.0", "2.1"]),
    st.sampled_from(["1.0.0", "2.0.0"]).map(DeviceAttribute.version),
    st.just(("a", "b")),
)
NAMES = st.sampled_from(["a", "b", "c", "e.f/a", "e.f/b"])
AMOUNTS = st.sampled_from(["1", "1Gi", "1500m"])


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Devices of two drivers, of which one uses the domain `d`."""
    slices = []
    for driver in ("d", "other"):
        devices = [draw_device(draw, f"{driver}-{number}") for number in range(draw(st.integers(1, 3)))]
        slices.append(slice_(*devices, name=driver, driver=driver, pool=driver))
    return snapshot(*slices)


def draw_device(draw: st.DrawFn, name: str) -> Device:
    attributes = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    return device(name, attributes=attributes, capacity=draw(st.dictionaries(st.sampled_from("ab"), AMOUNTS)))


PLAIN = st.builds(
    '{}device.{}["{}"].{} {} {}'.format,
    st.sampled_from(["", '!has(device.attributes["d"].c) || ']),
    st.sampled_from(["attributes", "attributes", "capacity"]),
    st.sampled_from(["d", "e.f", "dd"]),
    st.sampled_from(["a", "b", "aa", "B"]),
    st.sampled_from(["==", "!=", "<", ">="]),
    st.sampled_from(['"a"', '"1"', '"1.0"', '"2.0.0"', '"1Gi"', "1", "7", "true", '"true"']),
)
TEXTS = st.one_of(PLAIN, st.builds("{} && {}".format, PLAIN, PLAIN), selectors())


def fails(text: str, published: Published) -> bool:
    program = compile_selector(text)
    assert isinstance(program, Program), f"{text} does not compile"
    for item in published.devices:
        try:
            program.evaluate(item.cel)
        except CelRuntimeError:
            return True
    return False


@given(cluster=clusters(), text=TEXTS)
def test_a_corrected_selector_compiles_and_fails_on_no_device(cluster: ClusterSnapshot, text: str) -> None:
    published = Published(cluster)
    found = lint_selector(text, Corrector(published))

    assert [fault.corrected for fault in found if fault.corrected and fails(fault.corrected, published)] == []


@given(cluster=clusters(), text=TEXTS)
def test_a_corrected_selector_does_not_have_the_fault(cluster: ClusterSnapshot, text: str) -> None:
    corrector = Corrector(Published(cluster))
    for fault in lint_selector(text, corrector):
        again = {(item.rule, item.text) for item in lint_selector(fault.corrected, corrector)}

        assert not fault.corrected or (fault.rule, fault.text) not in again


@given(cluster=clusters(), text=TEXTS)
def test_a_selector_that_fails_somewhere_is_told(cluster: ClusterSnapshot, text: str) -> None:
    published = Published(cluster)
    is_broken = not isinstance(compile_selector(text), Program)
    found = lint_selector(text, Corrector(published))

    assert is_broken or bool(found) or not fails(text, published)


@given(cluster=clusters(), of_class=TEXTS, text=TEXTS)
def test_a_claim_of_any_class_is_judged(cluster: ClusterSnapshot, of_class: str, text: str) -> None:
    wanted = claim("c", request("r", text, klass="k"))
    whole = snapshot(*cluster.slices, klass("k", of_class), wanted)
    found = lint_cluster(whole)

    assert all(finding.fault.text and finding.fault.path for finding in found)
