"""`claimsmith devices`."""
def devices() -> None:
    """x"""
