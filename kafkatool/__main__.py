"""`python -m kafkatool`."""

from kafkatool.cli import main

if __name__ == "__main__":
    main()
