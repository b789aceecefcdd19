"""`python -m claimsmith`: the same as `claimsmith`."""

from claimsmith.cli.main import main

if __name__ == "__main__":
    main()
