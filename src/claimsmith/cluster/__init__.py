"""From the API server to a snapshot of the cluster."""
