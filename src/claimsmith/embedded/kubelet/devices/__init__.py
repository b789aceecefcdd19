"""The device manager of the embedded kubelet: plugins of the device plugin protocol, and who has which device."""
