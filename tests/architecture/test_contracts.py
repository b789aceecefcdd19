"""The import contracts that are ours find a forbidden import in a graph made by hand."""

from __future__ import annotations

from grimp import ImportGraph

from tests.architecture.contracts import GateContract, OnlyContract


def make_graph(*imports: tuple[str, str]) -> ImportGraph:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_module(importer)
        graph.add_module(imported)
        graph.add_import(importer=importer, imported=imported)
    return graph


def only(graph: ImportGraph) -> list[tuple[str, str]]:
    options = {"source_modules": ["app.drivers"], "allowed_modules": ["app.sdk"]}
    return OnlyContract("only", {"root_packages": ["app"]}, options).find_broken(graph)


def gate(graph: ImportGraph) -> list[tuple[str, str]]:
    options = {"packages": ["solver", "app.drivers"], "gates": ["app.core.solve", "app.drivers"]}
    return GateContract("gate", {"root_packages": ["app"]}, options).find_broken(graph)


def test_only_finds_an_import_outside_the_allowed_rooms() -> None:
    graph = make_graph(("app.drivers.simulated", "app.kube.client"))

    assert only(graph) == [("app.drivers.simulated", "app.kube.client")]


def test_only_keeps_allowed_rooms_itself_and_outside_packages() -> None:
    graph = make_graph(
        ("app.drivers.simulated", "app.sdk.driver"),
        ("app.drivers.simulated", "app.drivers.shared"),
        ("app.drivers.simulated", "yaml"),
        ("app.cli", "app.kube.client"),
    )

    assert only(graph) == []


def test_only_tells_rooms_with_a_common_prefix_apart() -> None:
    graph = make_graph(("app.drivers", "app.sdkextra"))

    assert only(graph) == [("app.drivers", "app.sdkextra")]


def test_gate_finds_a_second_importer_of_an_outside_package() -> None:
    graph = make_graph(("app.core.solve", "solver"), ("app.cli", "solver"))

    assert gate(graph) == [("app.cli", "solver")]


def test_gate_finds_an_importer_of_a_module_inside_a_room() -> None:
    graph = make_graph(("app.testing.kit", "app.drivers.simulated"), ("app.drivers.nic", "app.drivers.simulated"))

    assert gate(graph) == [("app.testing.kit", "app.drivers.simulated")]
