"""The plugin side of the kubelet's protocols: serves a driver on unix sockets and remembers what is prepared."""
