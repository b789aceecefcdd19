"""Composition of the rooms into long-running processes."""
