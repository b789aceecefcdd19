"""The selector language as the allocator uses it: claimsmith's own engine, set up for a set of gates."""

from __future__ import annotations

import importlib
from typing import Any

from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.features import Features

__all__ = ["CelEngine"]


class CelEngine:
    """Compiles and evaluates selectors with `claimsmith.cel`."""

    __slots__ = ("_cel", "_features")

    def __init__(self, features: Features) -> None:
        self._features = features
        self._cel: Any = None

    @property
    def cel(self) -> Any:
        """The language, loaded when the first selector needs it."""
        if self._cel is None:
            self._cel = importlib.import_module("claimsmith.cel")
        return self._cel

    def compile(self, text: str) -> Any:
        """Return the program of a selector."""
        return self.cel.compile_expression(text)

    def compile_attribute(self, text: str) -> Any:
        """Return the program of a derived attribute."""
        return self.cel.compile_expression(text)

    def prepare(self, driver: str, device: Device) -> Any:
        """Return the device in the form that programs read."""
        return self.cel.prepare_device(driver, device)

    def evaluate(self, program: Any, device: Any) -> bool:
        """Return the answer for a prepared device."""
        return bool(program.evaluate(device))

    def evaluate_attribute(self, program: Any, device: Any) -> DeviceAttribute | None:
        """Return the value of an expression as an attribute."""
        value: DeviceAttribute | None = program.evaluate(device)
        return value
