"""The exact search: upstream's order and answers, with look-ahead and symmetry."""
