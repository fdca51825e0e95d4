#!/bin/sh
# A broker does not start because a checkpoint cannot be read
#
# Usage: bad-checkpoint.sh FILE KEPT [--apply]
#
#   FILE  the file that the broker names, for example /var/lib/kafka/data/recovery-point-offset-checkpoint
#   KEPT  a directory to move it to, on any volume, outside of every log directory
#
# Symptoms: "Malformed line in checkpoint file", "Unrecognized version of the checkpoint file" or "Expected N
# entries in checkpoint file, but found only M". The broker stops, or takes the log directory offline. Or, worse,
# it says "started" and leads no partition: then the file is replication-offset-checkpoint.
#
# What it means: checkpoints are small text files that a broker rewrites again and again. A full disk, a crashed
# file system or an editor left half of one. The broker stops because it does not guess. It can run without any
# of the files below; step 2 says what that costs.
#
# Without --apply nothing is changed. --apply moves the file to KEPT; to go back, move it back.
#
# Call somebody: if the file is meta.properties or partition.metadata. They say whose directory this is; without
# them the broker leaves the directory out, or treats the partition as stray. Write the right content again: take
# meta.properties from another log directory of the same broker (the directory.id differs), and the topic id from
# kafka-topics.sh --describe.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
file=$1 kept=$2 apply=${3-}
# Exit code 4 (findings) is expected here; any other failure ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. What is in the file, and what would a broker do with it?"
head -c 1000 "$file"
kafkatool recover -q "$(dirname "$file")" || found $?

echo "2. What does it cost to start without it?"
case $(basename "$file") in
recovery-point-offset-checkpoint)
    echo "Where to begin scanning after a crash. Without it the next start scans every log: minutes per terabyte." ;;
log-start-offset-checkpoint)
    echo "Where logs begin. Without it, records that kafka-delete-records deleted can be read again, until their"
    echo "segments are deleted." ;;
replication-offset-checkpoint)
    echo "How far logs are replicated. Without it the broker asks the other replicas again: consumers wait for a"
    echo "moment. Do not do this on several brokers at the same time." ;;
cleaner-offset-checkpoint)
    echo "How far logs are compacted. Without it they are compacted again from their start: work, but no loss." ;;
leader-epoch-checkpoint)
    echo "Which leader wrote from which offset on. Without it the replicas use the high watermark when they next"
    echo "agree on a common end. If another replica is in sync, use crc-errors-one-bad-replica.sh instead." ;;
quorum-state)
    echo "Whom this controller voted for. Without it, it asks the others. Do this on one controller at a time,"
    echo "while a majority of the others runs; a single controller just starts." ;;
*)
    echo "$file: a broker needs this file; the end of this runbook's story says what to do" >&2
    exit 5 ;;
esac
[ "$apply" = --apply ] || { echo "Nothing was changed; --apply moves it to $kept."; exit 4; }

# This is safe even while the broker runs: it does not read these files again, and rewrites them.
mkdir -p "$kept"
mv "$file" "$kept/$(basename "$file").$(date +%s)"

echo "3. Is that all? Other checkpoints may be damaged too."
kafkatool recover -q "$(dirname "$file")"
