"""What the controller manager does for claims and pods in a real cluster."""
