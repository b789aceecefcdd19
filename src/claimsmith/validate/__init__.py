"""Every limit and rule of the API, in one place: for the embedded server, publishing, the webhook and lint."""

from claimsmith.validate.issues import FieldIssue
from claimsmith.validate.rules import validate_create, validate_status_update, validate_update

__all__ = ["FieldIssue", "validate_create", "validate_status_update", "validate_update"]
