"""`python -m kafkatool`."""

import gc

# Importing makes many objects and no garbage: the default of 700 costs a tenth of the start-up.
gc.set_threshold(50_000)

from kafkatool.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
