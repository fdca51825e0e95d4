"""`python -m kafkatool`, and the `kafkatool` command."""

import gc
import signal

# Until cli.py installs a handler, an interrupt ends the program without a traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Start-up creates many objects and no garbage; collecting anyway would take a tenth of its time.
gc.set_threshold(100_000)

from kafkatool.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
