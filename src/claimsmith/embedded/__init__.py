"""The embedded cluster: a small Kubernetes in one process, for trials, tests and laptops."""
