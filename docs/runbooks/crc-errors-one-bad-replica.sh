#!/bin/sh
# CRC errors in a consumer, and other replicas are good: let the broker fetch this one again
#
# Usage: crc-errors-one-bad-replica.sh PARTITION KEPT                                     is this copy good?
#        crc-errors-one-bad-replica.sh PARTITION KEPT DESCRIBED [--apply [--offline]]     set it aside
#
#   PARTITION  the partition directory on this broker, for example /var/lib/kafka/data/orders-0
#   KEPT       a directory for the damaged copy, outside of log.dirs; on another volume the copy takes time
#   DESCRIBED  a file with the output of kafka-topics.sh --bootstrap-server HOST:PORT --describe, for all topics,
#              made after this broker was stopped
#
# Symptoms: a consumer reports "Record is corrupt (stored crc = ...)" or CorruptRecordException, always at the same
# offset; or a follower cannot fetch, and its broker logs the same words. When another broker becomes the leader,
# the consumer goes on.
#
# What it means: a disk or memory has changed bytes below Kafka. Replicas are copies of what the leader sent, so
# the others are most likely good. A broker never repairs one from another by itself.
#
# 1. Run the first form on every broker that has the partition. It only reads, and does not disturb the broker. It
#    ends with exit code 0 for a good copy, 4 for a bad one.
# 2. Stop the broker with the bad copy; if it leads the partition, that moves the leader. Then write DESCRIBED and
#    run the second form: it shows what would be moved, and refuses (5) if acknowledged records could be lost.
# 3. Run the same with --apply, then start the broker. It fetches everything from the leader. Watch until it is
#    back in the Isr, and stop no other broker before that.
#
# The work is done by kafkatool set-aside. It also removes the clean shutdown marker, because with it the emptied
# copy could be elected leader; and since that concerns all partitions of the broker, it checks all of them. To go
# back before the broker has started, run the command that it prints.
#
# Add --offline if exit code 5 asks for it: it confirms that no broker on any host uses this directory.
#
# Call somebody: if all copies are bad (crc-errors-only-copy.sh), or if the same disk shows a second case: then
# replace it.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2 described=${3-} log_dir=$(dirname "$1")
shift 2
[ -z "$described" ] || shift
# Exit code 4 (findings) is expected here; any other failure ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. Is this copy good? All batches and records are checked:"
kafkatool verify --deep "$partition" && { echo "This copy is good: leave it alone."; exit 0; } || found $?

# The controllers decide which replicas are in sync. What this broker knew of that is on its disk, and may be old
# by now; kafka-topics.sh --describe is right.
echo "2. Which replicas are in sync, according to the metadata on this disk?"
kafkatool recover "$partition" || found $?
[ -n "$described" ] || { echo "Nothing was changed. Stop the broker, then run the second form."; exit 4; }

echo "3. Set it aside"
kafkatool set-aside "$partition" --move-to "$kept" --describe "$described" "$@"
[ "${1-}" = --apply ] || { echo "Nothing was changed; --apply moves $partition to $kept."; exit 4; }

# Nothing else should stop the broker from starting: this exit code is that of the runbook.
echo "4. What will the broker do at its next start?"
kafkatool recover -q "$log_dir"
