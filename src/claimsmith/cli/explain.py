"""`claimsmith explain`."""
def explain() -> None:
    """x"""
