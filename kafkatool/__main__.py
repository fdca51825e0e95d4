"""`python -m kafkatool`, and the `kafkatool` command."""

import gc
import signal

# Until there is somebody to catch it (cli.py), an interrupt ends the program without a traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# A start makes many objects and no garbage. Collecting all the same takes a tenth of it.
gc.set_threshold(100_000)

from kafkatool.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
