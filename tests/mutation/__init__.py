"""Rules broken on purpose, one at a time: the tests must notice each."""
