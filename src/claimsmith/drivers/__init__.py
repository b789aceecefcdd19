"""Drivers, found by their entry points; none is imported by name."""
