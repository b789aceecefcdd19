"""The kubelet of an embedded node: registers plugins, prepares claims through them, runs pretended containers."""
