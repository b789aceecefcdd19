"""The kubelet's plugin protocols: messages generated from its .proto files, service names and folders; nothing else.

The messages come from k8s.io/kubelet v0.37.2 by `scripts/generate_stubs.py`.
"""
