#!/bin/sh
# CRC errors in a consumer, and other replicas are good: let this one be fetched again
#
# Usage: crc-errors-one-bad-replica.sh PARTITION KEPT [--apply [--offline]]
#
#   PARTITION  the partition directory on this broker, say /var/lib/kafka/data/orders-0
#   KEPT       a directory for the damaged copy, on the same volume (else it is copied), outside of log.dirs
#
# Symptoms: a consumer says "Record is corrupt (stored crc = ...)" or CorruptRecordException, always at the same
# offset; or a follower cannot follow, and its broker logs the same words. After the leader moves to another
# broker, the consumer gets on.
#
# What it means: a disk or memory has changed bytes below Kafka. Replicas are copies of what the leader sent, so
# the others are most likely whole; a broker never repairs one from another by itself.
#
# 1. Run this without --apply on every broker that has the partition. It reads, and disturbs nobody. Good copies
#    end with exit code 0, bad ones with 4.
# 2. See that a good one is in sync, and leads: kafka-topics.sh --describe --topic ..., and if the bad one
#    leads, stop its broker: that moves the leader.
# 3. On the broker of the bad one, stopped: --apply. Then start it. It fetches everything from the leader; watch
#    the partition come back into the Isr.
#
# --offline, where exit code 5 asks for it: no other host uses this directory, I know.
#
# Call somebody: if all copies are bad (crc-errors-only-copy.sh), or if the same disk shows a second case:
# replace it.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2 log_dir=$(dirname "$1")
shift 2
# Findings are what we came for; any other exit code ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. Is this copy good? Every batch, every record:"
kafkatool verify --deep "$partition" && { echo "This copy is good: leave it alone."; exit 0; } || found $?

# Followers are in sync by the word of the controllers. What this broker knew of it is on its disk, and may be
# old by now; kafka-topics.sh --describe has the last word.
echo "2. Who has it in sync, by the metadata on this disk?"
kafkatool recover "$partition" || found $?
[ "${1-}" = --apply ] || { echo "Nothing was changed; --apply moves $partition to $kept."; exit 4; }

# Refused (5) while a broker uses the directory, from this host or another; else at most an index is made anew.
kafkatool rebuild-index -q "$@" --backup-dir "$kept" "$partition" || found $?

# With the mark of a clean shutdown the controllers could take the emptied replica for a whole one, and let it
# lead. Without it the broker comes back as one that has to catch up first.
echo "3. Set it aside"
rm -f "$log_dir/.kafka_cleanshutdown"
mkdir -p "$kept"
mv "$partition" "$kept/$(basename "$partition").$(date +%s)"

# Nothing else should be in the way of a start: this is the exit code.
echo "4. What will the broker do at its next start?"
kafkatool recover -q "$log_dir"
