#!/bin/sh
# A broker complains of an index, or starts and reads the wrong place
#
# Usage: corrupt-index.sh PARTITION KEPT [--apply [--offline]]
#
#   PARTITION  the partition directory, say /var/lib/kafka/data/orders-0
#   KEPT       a directory for the originals, on any volume, outside of every log directory
#
# Symptoms: the broker's log says "Found a corrupted index file" or "Corrupt index found"; a start takes very
# long because segments are scanned for the sake of their indexes; consumers that look for a time or an old
# offset get errors or wait in vain, while those at the end of the log are well.
#
# What it means: .index, .timeindex and .txnindex only say where in the .log to look. All of them can be made
# again from the log, so nothing is lost. But a broker trusts them: after a clean shutdown it reads none of
# them until somebody asks, and then a wrong entry leads it into the middle of a batch.
#
# Without --apply nothing is changed, and the broker may run. With --apply it must be stopped; if it is not,
# this ends with exit code 5. Add --offline where it asks for it: no other host uses this directory, I know.
#
# Call somebody: if step 1 tells of severity `loss`, the log itself is damaged. Then it is crc-errors-*.sh that
# you want, and indexes come later.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2
shift 2
# Findings are what we came for; any other exit code ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. What is wrong: the log, or only what points into it?"
kafkatool verify -v "$partition" || found $?

# An index that a broker wrote after a restart has other entries than one made in one go. Such a one is left
# alone: what is listed is missing, or says something that the log does not.
echo "2. Which files are made anew${1:+, and were}:"
kafkatool rebuild-index "$@" --backup-dir "$kept" "$partition"

# The exit code of this last look is that of the runbook: 0, or 4 where something is left to do.
echo "3. And now?"
kafkatool verify "$partition"
