"""claimsmith gets the right devices to the right pods on Kubernetes, provably well, and says why when it can't."""

__version__ = "0.1.0"
