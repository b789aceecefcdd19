from __future__ import annotations

import io
from pathlib import Path

import pytest

from claimsmith.cli.inputs import read_manifests, read_text
from claimsmith.errors import InputError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def names(*paths: str | Path, stdin: bytes = b"") -> list[str]:
    return [entry.object["metadata"]["name"] for entry in read_manifests(paths, stdin=io.BytesIO(stdin))]


def test_files_folders_and_standard_input_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(POD % "b")
    (tmp_path / "a.yaml").write_text(POD % "a")
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}')
    (tmp_path / "notes.txt").write_text("not a manifest: [")
    single = tmp_path / "sub" / "single"
    single.parent.mkdir()
    single.write_text(POD % "single")

    assert names(single, tmp_path, "-", stdin=(POD % "in").encode()) == ["single", "a", "b", "c", "in"]


def test_a_manifest_knows_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(POD % "a")
    (manifest,) = read_manifests([file])

    assert manifest.locate("metadata.name") == f"{file}, document 1, line 3"


def test_text_in_utf_16_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes((POD % "a").encode("utf-16"))

    assert names(file) == ["a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found nothing, allowed one or more manifests"),
        (b"# only a remark\n", "found no object, allowed one or more manifests"),
        (b"\x7fELF\x02\x01\x01\xff", "found binary data at byte 7, allowed UTF-8 text"),
        (b"a: 1\0", "found binary data, allowed UTF-8 text"),
        (b"\xff\xfe\x00", "found binary data"),
        (b"apiVersion: v1\nkind: [Pod", "found broken YAML"),
    ],
)
def test_unusable_content_is_one_clear_line_with_the_file(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)

    with pytest.raises(InputError, match=message) as caught:
        read_manifests([file])

    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["absent.yaml", "a\0b", "x" * 5000])
def test_a_path_that_cannot_be_read_is_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"can't be read \(.*\), allowed a readable file or folder; correct the path"):
        read_manifests([tmp_path / name])


def test_a_folder_without_manifests_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found no manifest in the folder, allowed \*\.yaml \*\.yml \*\.json"):
        read_manifests([tmp_path])


def test_plain_text_is_read_from_a_file_or_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "expression"
    file.write_text("true")

    assert (read_text(file), read_text("-", stdin=io.BytesIO(b"false"))) == ("true", "false")


def test_a_folder_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_text(tmp_path)
