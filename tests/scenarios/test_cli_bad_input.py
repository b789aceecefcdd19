"""Bad input of every kind, for every command: one clear line, exit 2, nothing lost."""

from __future__ import annotations

import os
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.cli_process import Ran, call_claimsmith, complaint, run_claimsmith

POD: Final = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
SPACE: Final = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
DEVICE_CLASS: Final = (
    "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\n"
    "spec: {selectors: [{cel: {expression: '%s'}}]}\n"
)
CARDS: Final = (
    "apiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevices\nmetadata: {name: a}\n"
    "spec: {nodes: [alpha], gpus: [{model: T4}]}\n"
)
DEEP: Final = 10_000

FILES: Final = {
    "truncated YAML": (f'{POD}spec: {{x: "y\n', "found broken YAML"),
    "truncated JSON": ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"', "allowed YAML 1.1 or JSON"),
    "a key that is there twice": (f"{POD}kind: Node\n", "line 4: found a duplicate key 'kind'"),
    "tabs": (
        "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n",
        "line 4: found broken YAML (a tab in the indentation)",
    ),
    "deep JSON": ("[" * DEEP + "]" * DEEP, "allowed 200; flatten the document"),
    "deep JSON objects": ('{"apiVersion":"v1","spec":' + '{"a":' * DEEP + "1" + "}" * (DEEP + 1), "levels of nesting"),
    "deep YAML": (f"{POD}spec: {'[' * DEEP}{']' * DEEP}", "flatten the document"),
    "deep YAML lists": ("- " * DEEP + "a", "allowed 200; flatten the document"),
    "aliases that blow up": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)),
        "allowed 100000; write the values out",
    ),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}\n", "line 1: found no kind"),
    "a list of numbers": ("- 1\n- 2\n", "found a list, allowed an object with apiVersion and kind"),
    "plain text": ("just text\n", "found 'just text', allowed an object with apiVersion and kind"),
    "a wrong type": ("apiVersion: v1\nkind: Pod\nmetadata: 5\n", "line 3: metadata: found 5, allowed an object"),
    "a name that is a boolean": (POD.replace("name: a", "name: n"), "(YAML reads n as false)"),
    "a name that is not allowed": (POD.replace("name: a", "name: A_b"), "metadata.name: found 'A_b', a lowercase RFC"),
    "an object that is there twice": (f"{SPACE}---\n{SPACE}", "found a second Namespace a"),
    "1 MB of CEL": (DEVICE_CLASS % ("true && " * 131_072 + "true"), "may not be more than 10240 bytes"),
    "CEL that does not compile": (DEVICE_CLASS % "device.drver ==", "CEL column 16"),
    "settings with a typo": (CARDS.replace("model:", "modle:"), "spec.gpus[0].modle: found 'an unknown field'"),
    "settings of a wrong type": (CARDS.replace("[alpha]", "alpha"), "spec.nodes: found 'alpha', allowed a list"),
    "settings with a wrong model": (CARDS.replace("T4", "T400"), "spec.gpus[0].model: found 'T400', allowed V100-16"),
    "a node name that is not allowed": (CARDS.replace("[alpha]", "[Al_pha]"), "spec.nodes[0]: found 'Al_pha'"),
    "nothing": ("", "found nothing, allowed one or more manifests"),
    "only comments": ("# nothing\n---\n", "found no object, allowed one or more manifests"),
}
BYTES: Final = {
    "binary data": (bytes(range(256)) * 4, "found binary data at byte"),
    "text that is no UTF-8": (
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: '\xff\xfe'}\n",
        "found binary data at byte",
    ),
}
COMMANDS: Final = (("devices",), ("allocate",), ("explain", "pod/a"), ("whatif",), ("up",))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder; below it, in `tmp`, is the place for temporary files, in which nothing may be left."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield tmp_path

    assert list((tmp_path / "tmp").iterdir()) == []


def run(*arguments: str, text: bytes = b"") -> Ran:
    return call_claimsmith(*arguments, text=text)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("what", [*FILES, *BYTES])
def test_a_bad_file_is_refused_in_one_line(place: Path, command: tuple[str, ...], what: str) -> None:
    content, told = BYTES.get(what) or (FILES[what][0].encode(), FILES[what][1])
    file = place / "bad.yaml"
    file.write_bytes(content)

    line = complaint(run(*command, "-f", str(file)))

    assert line.startswith(str(file))
    assert told in line
    assert file.read_bytes() == content


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_missing_file_is_refused(place: Path, command: tuple[str, ...]) -> None:
    line = complaint(run(*command, "-f", str(place / "missing.yaml")))

    assert line == f"{place}/missing.yaml: can't be read (No such file or directory), " + (
        "allowed a readable file or folder; correct the path"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_empty_folder_is_refused(place: Path, command: tuple[str, ...]) -> None:
    line = complaint(run(*command, "-f", str(place)))

    assert "found no manifest in the folder" in line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_empty_standard_input_is_refused(place: Path, command: tuple[str, ...]) -> None:
    assert complaint(run(*command, "-f", "-")).startswith("<stdin>: found nothing")


@pytest.mark.parametrize("command", [("devices",), ("allocate",), ("explain", "pod/a"), ("demo",)], ids=" ".join)
def test_an_unknown_output_is_refused(place: Path, command: tuple[str, ...]) -> None:
    files = () if command == ("demo",) else ("-f", str(place))
    line = complaint(run(*command, *files, "-o", "nonsense"))

    assert "'nonsense' is not one of 'table', 'json', 'yaml'; see `claimsmith" in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("allocat",), "no such command 'allocat'. Did you mean 'allocate'?; see `claimsmith --help`"),
        (("validate",), "no such command 'validate'. Did you mean 'lint'?; see `claimsmith --help`"),
        (("--nonsense",), "no such option: --nonsense; see `claimsmith --help`"),
        (("allocate",), "cluster: found none of -f, --snapshot and --kubeconfig, and no kubeconfig in the usual"),
        (("explain", "-f", "x"), "missing argument 'TARGET'; see `claimsmith explain --help`"),
        (("conformance",), "missing argument 'FILE'; see `claimsmith conformance --help`"),
        (("demo", "x"), "got unexpected extra argument"),
        (("up", "--port", "x"), "invalid value for '--port': Input should be a valid integer"),
        (("up", "--port", "70000"), "invalid value for '--port': Input should be less than or equal to 65535"),
        (("up", "--policy", "best"), "--policy: found 'best', allowed first, pack, spread, fragmentation"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_arguments_are_refused(place: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in complaint(run(*arguments))


@pytest.mark.parametrize("command", [("allocate", "pod/b"), ("explain", "pod/b"), ("explain", "nonsense")])
def test_an_unknown_target_is_refused_with_those_that_wait(place: Path, command: tuple[str, ...]) -> None:
    text = f"{POD}spec: {{containers: [{{name: main, image: 'x:1'}}]}}\n".encode()
    line = complaint(run(*command, "-f", "-", text=text))

    assert line == f"target '{command[1]}': found no such pod or claim, allowed pod/default/a; correct it"


def test_files_without_a_node_hint_that_a_kubeconfig_does_not_count(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(place / "config"))
    text = f"{POD}spec: {{containers: [{{name: main, image: 'x:1'}}]}}\n".encode()
    ran = run("whatif", "-f", "-", text=text)

    assert "the files have no node, and KUBECONFIG does not count beside -f; name --kubeconfig" in ran.err


@pytest.mark.parametrize("command", [("allocate",), ("explain", "pod/a")], ids=" ".join)
def test_a_node_that_is_not_in_the_files_is_refused(place: Path, command: tuple[str, ...]) -> None:
    line = complaint(run(*command, "--node", "beta", "-f", "-", text=CARDS.encode()))

    assert line == "node 'beta': not in the manifests, allowed alpha; name one of them"


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_recorded_cases_that_can_not_be_read_are_refused(place: Path, name: str) -> None:
    assert "can't be read" in complaint(run("conformance", str(place / name)))


def test_a_file_without_recorded_cases_is_refused(place: Path) -> None:
    (place / "empty.jsonl").write_text("\n")

    assert "found no case, allowed one or more JSON lines" in complaint(run("conformance", f"{place}/empty.jsonl"))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("notes.md", b"# Notes\n\nnot one case\n", "line 1: not understood: JSON is malformed"),
        ("list.json", b"[1, 2]\n[3]\n", "line 1: not understood: found no object"),
        ("other.jsonl", b'{"name": "x", "kind": "Pod"}\n', "x: not understood: found fields ['kind', 'name']"),
        ("cut.jsonl.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 20, "can't be read"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(place: Path, name: str, content: bytes, told: str) -> None:
    (place / name).write_bytes(content)
    ran = run("conformance", str(place / name))

    assert ran.out == ""
    assert told in complaint(ran)


def test_a_pipe_in_a_folder_of_manifests_is_passed_over(place: Path) -> None:
    folder = place / "manifests"
    folder.mkdir()
    (folder / "node.yaml").write_text(CARDS)
    os.mkfifo(folder / "pipe.yaml")

    assert run("devices", "-f", str(folder)).code == 0


def test_a_folder_with_too_long_a_name_is_refused_before_it_is_made(place: Path) -> None:
    folder = place / ("x" * 200)
    line = complaint(run("up", "-f", "-", "--folder", str(folder), text=CARDS.encode()))

    assert "allowed 107; choose a shorter folder" in line
    assert not folder.exists()


@pytest.mark.parametrize("option", ["--folder", "--state", "--write-kubeconfig"])
@pytest.mark.parametrize("where", ["/proc/claimsmith", "file/below"])
def test_a_place_that_can_not_be_written_is_refused(place: Path, option: str, where: str) -> None:
    (place / "file").write_text("mine")
    line = complaint(run("up", "-f", "-", option, str(place / where), text=CARDS.encode()))

    assert str(place / where) in line
    assert (place / "file").read_text() == "mine"


@pytest.mark.parametrize("content", [b"not a database, but long enough to have a header", b"SQLite format 3\x00broken"])
def test_a_state_file_that_is_none_stays_as_it_is(place: Path, content: bytes) -> None:
    state = place / "state.db"
    state.write_bytes(content)
    line = complaint(run("up", "-f", "-", "--state", str(state), text=CARDS.encode()))

    assert line.startswith(f"state file {state}: damaged")
    assert state.read_bytes() == content


def test_a_database_of_another_program_stays_as_it_is(place: Path) -> None:
    state = place / "other.db"
    with sqlite3.connect(state) as database:
        database.execute("CREATE TABLE mine (id INTEGER)")
    before = state.read_bytes()
    line = complaint(run("up", "-f", "-", "--state", str(state), text=CARDS.encode()))

    assert "found a database of another program" in line
    assert state.read_bytes() == before


def test_a_port_in_use_is_refused(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = complaint(run("up", "-f", "-", "--port", str(port), text=CARDS.encode()))

    assert line == (
        f"API server address 127.0.0.1:{port}: can't listen there (Address already in use); "
        "name a free port, or 0 for any"
    )


def test_an_unknown_log_level_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIMSMITH_LOG", "loud")
    line = complaint(run("up", "-f", "-", text=CARDS.encode()))

    assert line == "CLAIMSMITH_LOG: found 'loud', allowed off, error, warning, info, debug; correct it or unset it"


@pytest.mark.parametrize("what", ["truncated YAML", "1 MB of CEL"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_process_of_its_own_refuses_it_just_so(tmp_path: Path, command: tuple[str, ...], what: str) -> None:
    content, told = FILES[what]
    line = complaint(run_claimsmith(*command, "-f", "-", temporary=tmp_path, text=content.encode()))

    assert line.startswith("<stdin>, document 1, line ")
    assert told in line
