#!/bin/sh
# CRC errors in a consumer, and other replicas are good: let this one be fetched again
#
# Usage: crc-errors-one-bad-replica.sh PARTITION KEPT                                     is this copy good?
#        crc-errors-one-bad-replica.sh PARTITION KEPT DESCRIBED [--apply [--offline]]     set it aside
#
#   PARTITION  the partition directory on this broker, say /var/lib/kafka/data/orders-0
#   KEPT       a directory for the damaged copy, on the same volume (else it is copied), outside of log.dirs
#   DESCRIBED  a file with what kafka-topics.sh --bootstrap-server HOST:PORT --describe printed, of all topics,
#              after this broker was stopped
#
# Symptoms: a consumer says "Record is corrupt (stored crc = ...)" or CorruptRecordException, always at the same
# offset; or a follower cannot follow, and its broker logs the same words. After the leader moves to another
# broker, the consumer gets on.
#
# What it means: a disk or memory has changed bytes below Kafka. Replicas are copies of what the leader sent, so
# the others are most likely whole; a broker never repairs one from another by itself.
#
# 1. Run the first form on every broker that has the partition. It reads, and disturbs nobody. Good copies end
#    with exit code 0, bad ones with 4.
# 2. Stop the broker of the bad one: if it leads, that moves the leader. Then have the cluster described, and run
#    the second form: it says what would be moved, and refuses (5) where acknowledged records could be lost.
# 3. The same with --apply. Then start the broker. It fetches everything from the leader; watch the partition come
#    back into the Isr, and stop no other broker before.
#
# It is kafkatool set-aside that does it: it removes the mark of a clean shutdown too, with which an emptied copy
# could be elected, and looks at all partitions of the broker for that. Its journal leads back.
#
# --offline, where exit code 5 asks for it: no other host uses this directory, I know.
#
# Call somebody: if all copies are bad (crc-errors-only-copy.sh), or if the same disk shows a second case:
# replace it.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2 described=${3-} log_dir=$(dirname "$1")
shift 2
[ -z "$described" ] || shift
# Findings are what we came for; any other exit code ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. Is this copy good? Every batch, every record:"
kafkatool verify --deep "$partition" && { echo "This copy is good: leave it alone."; exit 0; } || found $?

# Followers are in sync by the word of the controllers. What this broker knew of it is on its disk, and may be
# old by now; kafka-topics.sh --describe has the last word.
echo "2. Who has it in sync, by the metadata on this disk?"
kafkatool recover "$partition" || found $?
[ -n "$described" ] || { echo "Nothing was changed; stop the broker, and go on with the second form."; exit 4; }

echo "3. Set it aside"
kafkatool set-aside "$partition" --move-to "$kept" --describe "$described" "$@"
[ "${1-}" = --apply ] || { echo "Nothing was changed; --apply moves $partition to $kept."; exit 4; }

# Nothing else should be in the way of a start: this is the exit code.
echo "4. What will the broker do at its next start?"
kafkatool recover -q "$log_dir"
