"""Runs in the bundle before kafkatool does: programs that we start get the environment that we were given.

PyInstaller has our own libraries found through LD_LIBRARY_PATH, which has done its work when Python runs. A
decoder of the user's, or a Java, must not be started with our C library.
"""

import os

given = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if given is None:
    os.environ.pop("LD_LIBRARY_PATH", None)
else:
    os.environ["LD_LIBRARY_PATH"] = given
