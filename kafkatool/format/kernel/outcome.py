"""Why a Tally stops: numbers that reference.py and compiled.pyx share."""

MORE, ODD, INDEX, TIME, EPOCH, PRODUCER, RECORDS = range(7)
