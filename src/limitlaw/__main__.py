"""`python -m limitlaw` runs the command `limitlaw`."""

from limitlaw.apps.cli import main

if __name__ == "__main__":
    main()
