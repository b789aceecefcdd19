"""What is wrong with selectors, constraints and requests, held against what is published. Pure."""
