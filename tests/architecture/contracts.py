"""Two contract types for import-linter: what a room may import at most, and who may import a package."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def _is_within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _root_of(module: str) -> str:
    return module.partition(".")[0]


class _DirectImportContract(Contract):
    """Shared part: the broken imports are (importer, imported) pairs and printed one a line."""

    def find_broken(self, graph: ImportGraph) -> list[tuple[str, str]]:
        """Return the direct imports that break the contract."""
        raise NotImplementedError

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check the contract; import-linter calls it."""
        broken = sorted(self.find_broken(graph))
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import that breaks the contract."""
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"- {importer} -> {imported}", bold=False)


class OnlyContract(_DirectImportContract):
    """A room imports nothing of the product but itself and what is allowed.

    Options:
        source_modules: The rooms the contract binds, with all that is in them.
        allowed_modules: What they may import directly, with all that is in it.
    """

    source_modules: Any = fields.SetField(subfield=fields.StringField())
    allowed_modules: Any = fields.SetField(subfield=fields.StringField())

    def find_broken(self, graph: ImportGraph) -> list[tuple[str, str]]:
        """Return the imports from a source to a module of its own root package that is not allowed."""
        sources = set(self.source_modules)
        allowed = sources | set(self.allowed_modules)
        return [
            (importer, imported)
            for importer in graph.modules
            if _is_within(importer, sources)
            for imported in graph.find_modules_directly_imported_by(importer)
            if _root_of(imported) == _root_of(importer) and not _is_within(imported, allowed)
        ]


class GateContract(_DirectImportContract):
    """Packages are imported by their gates alone.

    Options:
        packages: Packages from outside, or rooms of the product, with all that is in them.
        gates: The modules that may import them, with all that is in them.
    """

    packages: Any = fields.SetField(subfield=fields.StringField())
    gates: Any = fields.SetField(subfield=fields.StringField())

    def find_broken(self, graph: ImportGraph) -> list[tuple[str, str]]:
        """Return the imports of a package by a module that is no gate."""
        packages, gates = set(self.packages), set(self.gates)
        return [
            (importer, imported)
            for imported in graph.modules
            if _is_within(imported, packages)
            for importer in graph.find_modules_that_directly_import(imported)
            if not _is_within(importer, gates)
        ]
