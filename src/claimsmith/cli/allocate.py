"""`claimsmith allocate`."""
def allocate() -> None:
    """x"""
