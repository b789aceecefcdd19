"""What tests of claimsmith and of drivers share: builders of values, and the tests that a vendor subclasses."""
