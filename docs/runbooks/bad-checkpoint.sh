#!/bin/sh
# A broker does not start because a checkpoint cannot be read
#
# Usage: bad-checkpoint.sh FILE KEPT [--apply]
#
#   FILE  the file that the broker names, say /var/lib/kafka/data/recovery-point-offset-checkpoint
#   KEPT  a directory for it, on any volume, outside of every log directory
#
# Symptoms: "Malformed line in checkpoint file", "Unrecognized version of the checkpoint file", "Expected N
# entries in checkpoint file, but found only M", and the broker stops or takes the log directory offline. Or,
# worse, it says "started" and leads no partition: then it is replication-offset-checkpoint.
#
# What it means: checkpoints are small text files that are written anew every few seconds. A full disk, a
# crashed file system or an editor left half of one. A broker would rather stop than guess, but all of them
# can be done without; what that costs is said below for each.
#
# Without --apply nothing is changed. With it the file is moved to KEPT; to go back, move it back.
#
# Call somebody: if the file is meta.properties or partition.metadata. They say whose directory this is, and
# without them a broker treats it as a stranger's. Write the right content again, from another log directory of
# the same broker (meta.properties; the directory.id differs) or from kafka-topics.sh --describe (the topic id).

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
file=$1 kept=$2 apply=${3-}
# Findings are what we came for; any other exit code ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. What does it say, and what would a broker make of it?"
head -c 1000 "$file"
kafkatool recover -q "$(dirname "$file")" || found $?

echo "2. What is it worth?"
case $(basename "$file") in
recovery-point-offset-checkpoint)
    echo "Where to begin scanning after a crash. Without it the next start scans every log: minutes a terabyte." ;;
log-start-offset-checkpoint)
    echo "Where logs begin. Without it, records of the first segments that were deleted by kafka-delete-records"
    echo "can be read again, until their segments go." ;;
replication-offset-checkpoint)
    echo "How far logs are replicated. Without it that is asked of the other replicas again: consumers wait" 
    echo "for a moment. Do not do it on several brokers at the same time." ;;
cleaner-offset-checkpoint)
    echo "How far logs are compacted. Without it they are compacted once more from their start: work, no loss." ;;
leader-epoch-checkpoint)
    echo "Which leader wrote from which offset on. Without it the replicas fall back on the high watermark when"
    echo "they next agree on a common end. With another replica in sync, crc-errors-one-bad-replica.sh is better still." ;;
quorum-state)
    echo "Whom this controller voted for. Without it, it asks the others. Do it on one controller at a time,"
    echo "with a majority of the others running; a single controller just goes on." ;;
*)
    echo "$file cannot be done without: see the end of this runbook's story" >&2
    exit 5 ;;
esac
[ "$apply" = --apply ] || { echo "Nothing was changed; --apply moves it to $kept."; exit 4; }

# Even beside a running broker this is harmless: it never reads these files again, and writes them anew.
mkdir -p "$kept"
mv "$file" "$kept/$(basename "$file").$(date +%s)"

echo "3. And now? Other checkpoints may have suffered with it."
kafkatool recover -q "$(dirname "$file")"
