"""JSON and YAML to values of the model and back, per served API version."""
