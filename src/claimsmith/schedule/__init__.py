"""From a decision to the API server: queue, node checks, claim and pod writes."""
