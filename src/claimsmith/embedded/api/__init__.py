"""The API server of the embedded cluster: what stock kubectl and client libraries talk to over HTTP."""
