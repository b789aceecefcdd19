"""The JSON of the served API versions as msgspec Structs, one module per subject.

Nothing is imported here: a process loads the modules of the kinds that it reads. `api.kinds` knows
which type stands for which kind.
"""
