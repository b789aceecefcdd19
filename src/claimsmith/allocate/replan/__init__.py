"""What to change so that more fits: the cheapest victims, and moves that raise a goal."""
