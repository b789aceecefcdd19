"""The decision: which devices a pod's claims get. Pure: no I/O, clock, randomness, logging or asyncio."""
