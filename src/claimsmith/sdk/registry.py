"""Finds drivers by their entry points, so that a vendor's package only has to be installed.

A package says in its pyproject.toml: `[project.entry-points."claimsmith.drivers"]`, `NAME = "package.module:Class"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from typing import Final, Protocol

from claimsmith.errors import ClaimsmithError, ConfigError
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.validate.names import check_driver_name

__all__ = ["ENTRY_POINT_GROUP", "PluginEntry", "create_drivers", "find_plugin", "iter_plugins", "load_driver_class"]

ENTRY_POINT_GROUP: Final = "claimsmith.drivers"
"""Group of entry points under which packages name their drivers."""


class PluginEntry(Protocol):
    """An installed driver plugin that is not imported yet; `importlib.metadata.EntryPoint` is one."""

    @property
    def name(self) -> str:
        """Name of the plugin."""
        ...

    @property
    def value(self) -> str:
        """`package.module:Class`."""
        ...

    def load(self) -> object:
        """Import the module and return the class."""
        ...


def iter_plugins() -> tuple[PluginEntry, ...]:
    """Return the installed driver plugins by name; nothing of them is imported."""
    return tuple(sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: (entry.name, entry.value)))


def find_plugin(name: str, *, plugins: Iterable[PluginEntry] | None = None) -> PluginEntry | None:
    """Return the plugin of a name; None when none is installed.

    Args:
        name: Name of the entry point.
        plugins: Where to look; None: what is installed.

    Raises:
        ConfigError: Two packages give different drivers under this name.
    """
    found = [entry for entry in (iter_plugins() if plugins is None else plugins) if entry.name == name]
    targets = sorted({entry.value for entry in found})
    if len(targets) > 1:
        raise ConfigError(
            f"driver plugin {name!r}: found {' and '.join(targets)}, allowed one; uninstall one of the packages"
        )
    return found[0] if found else None


def load_driver_class(name: str, *, plugins: Iterable[PluginEntry] | None = None) -> type[Driver]:
    """Import a plugin and return its driver class.

    Raises:
        ConfigError: There is no such plugin, it can't be imported, or it is no driver.
    """
    known = tuple(iter_plugins() if plugins is None else plugins)
    entry = find_plugin(name, plugins=known)
    if entry is None:
        names = ", ".join(sorted({item.name for item in known})) or "none"
        raise ConfigError(
            f"driver plugin {name!r}: found none of this name, installed are {names}; "
            f"install its package or correct the name"
        )
    try:
        loaded = entry.load()
    except Exception as error:
        raise ConfigError(
            f"driver plugin {name!r}: {entry.value} can't be imported: {type(error).__name__}: {error}, "
            "allowed a class; correct the package"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Driver)):
        raise ConfigError(
            f"driver plugin {name!r}: found {entry.value}, allowed a subclass of claimsmith.sdk.Driver; "
            "correct the entry point"
        )
    return loaded


def create_drivers(
    name: str, context: DriverContext, *, plugins: Iterable[PluginEntry] | None = None
) -> tuple[Driver, ...]:
    """Return the drivers that a plugin has for one node.

    Raises:
        InputError: The plugin's settings can't be used.
        ConfigError: The plugin can't be loaded or fails in a way of its own, or a driver's name is not allowed.
    """
    cls = load_driver_class(name, plugins=plugins)
    try:
        drivers = cls.create(context)
    except ClaimsmithError:
        raise
    except Exception as error:
        raise ConfigError(
            f"driver plugin {name!r}: {cls.__qualname__}.create failed: {type(error).__name__}: {error}; "
            "correct the class"
        ) from error
    if not (isinstance(drivers, tuple | list) and all(isinstance(driver, Driver) for driver in drivers)):
        raise ConfigError(
            f"driver plugin {name!r}: {cls.__qualname__}.create gave {drivers!r}, "
            "allowed a tuple of drivers; correct it"
        )
    for driver in drivers:
        _check_name(name, driver)
    return tuple(drivers)


def _check_name(plugin: str, driver: Driver) -> None:
    if any(check_driver_name(driver.name, "name")):
        raise ConfigError(
            f"driver plugin {plugin!r}: found driver name {driver.name!r}, allowed a DNS subdomain of at most "
            f"63 characters such as gpu.example.com; set `name` in {type(driver).__qualname__}"
        )
