"""Pure values in the words of the Kubernetes API: no I/O, no clock, no randomness."""
