"""The cluster and the wishes, prepared for decisions: indexes, rules as code, and what may be used."""
