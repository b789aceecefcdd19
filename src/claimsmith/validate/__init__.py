"""Every limit and rule of the API, in one place: for the embedded server, publishing, the webhook and lint."""

from typing import TYPE_CHECKING, Any

from claimsmith.validate.issues import FieldIssue

if TYPE_CHECKING:
    from claimsmith.validate.rules import validate_create, validate_status_update, validate_update

__all__ = ["FieldIssue", "validate_create", "validate_status_update", "validate_update"]


def __getattr__(name: str) -> Any:
    """Load the rules of all kinds when they are first asked for: an agent needs those of names and slices alone.

    Raises:
        AttributeError: There is no such name.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from claimsmith.validate import rules

    return getattr(rules, name)
