#!/bin/sh
# A broker reports a corrupt index, or starts and reads the wrong place
#
# Usage: corrupt-index.sh PARTITION KEPT [--apply [--offline]]
#
#   PARTITION  the partition directory, for example /var/lib/kafka/data/orders-0
#   KEPT       a directory for the originals, on any volume, outside of every log directory
#
# Symptoms: the broker's log says "Found a corrupted index file" or "Corrupt index found"; a start takes very long
# because segments are scanned to rebuild their indexes; consumers that look for a time or an old offset get
# errors or wait forever, while those at the end of the log are fine.
#
# What it means: .index, .timeindex and .txnindex only say where in the .log to look. All of them can be rebuilt
# from the log, so nothing is lost. But a broker trusts them: after a clean shutdown it does not compare them with
# the log, and a wrong entry leads a reader into the middle of a batch.
#
# Without --apply nothing is changed, and the broker may run. With --apply the broker must be stopped; if it is
# not, this ends with exit code 5. Add --offline if exit code 5 asks for it: it confirms that no broker on any
# host uses this directory.
#
# Call somebody: if step 1 shows severity `loss`. Then the log itself is damaged: use one of crc-errors-*.sh first,
# and come back for the indexes later.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2
shift 2
# Exit code 4 (findings) is expected here; any other failure ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. What is wrong: the log, or only its indexes?"
kafkatool verify -v "$partition" || found $?

# After restarts, a broker's index has other entries than one rebuilt in one go. Both are right, so it is not
# listed: listed are indexes that are missing or contradict the log.
echo "2. Files to rebuild${1:+, rebuilt now}:"
kafkatool rebuild-index "$@" --backup-dir "$kept" "$partition"

# The exit code of this check is that of the runbook: 0, or 4 if something is left to do.
echo "3. Is everything right now?"
kafkatool verify "$partition"
