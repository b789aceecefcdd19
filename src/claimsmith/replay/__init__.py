"""Workload traces replayed as claims: how much of a cluster a policy fills, beside bounds on what anyone could."""
