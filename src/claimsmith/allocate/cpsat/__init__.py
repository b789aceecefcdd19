"""Joint allocation by CP-SAT: equal things in patterns, a model of them, and a search whose answer is the floor."""
