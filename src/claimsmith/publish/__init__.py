"""From inventory to API server: plans are pure, applying them writes."""
