#!/bin/sh
# CRC errors in a consumer, and there is no other copy: what is lost, and how to get past it
#
# Usage: crc-errors-only-copy.sh PARTITION KEPT
#
#   PARTITION  the partition directory, say /var/lib/kafka/data/orders-0
#   KEPT       a directory for what is saved, with room for the damaged segments, outside of log.dirs
#
# Symptoms: as in crc-errors-one-bad-replica.sh; but the replication factor is 1, or every copy is bad.
#
# What it means: a batch is the smallest thing that can be lost: its records are under one checksum, and often
# compressed together. The batches before and behind are whole, and consumers can have them: they only have to
# be told where to go on. Nothing has to be repaired for that, and the broker need not stop.
#
# Nothing is changed here, ever. What is saved:
#
#   KEPT/orders-0/findings.ndjson        what is damaged, where, and which offsets it takes
#   KEPT/orders-0/*.log                  the damaged segments as they are now: a single flipped bit can be found
#   KEPT/orders-0/around-damage.ndjson   every record that can be read, offsets and all
#
# Do not restart the broker before this is through: a segment above the recovery point is scanned at the next
# unclean start, and everything behind the damage is cut off. Step 2 says whether that would happen; step 3 has
# it saved by then. Needs jq.
#
# Call somebody: the owners of the topic, with the offsets of step 1. And whoever replaces disks.

set -eu
[ $# -eq 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2/$(basename "$1")
# Findings are what we came for; any other exit code ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }
mkdir -p "$kept"

echo "1. What is damaged?"
kafkatool verify --deep -v "$partition" || found $?
kafkatool verify -q --deep --format ndjson "$partition" > "$kept/findings.ndjson" || found $?

echo "2. Would the next unclean start make it worse?"
kafkatool recover -q "$partition" || found $?

echo "3. Save the damaged segments, and every record that can be read"
jq -r 'select(.severity == "loss") | .file' "$kept/findings.ndjson" | sort -u | while read -r file; do
    cp -pv "$file" "$kept/"
done
kafkatool cat -q --all --format ndjson "$partition" > "$kept/around-damage.ndjson" || found $?
wc -l < "$kept/around-damage.ndjson"

# A group that waits at a lost offset is moved behind it, all its consumers being stopped; the others need not.
echo "4. How consumers get past it: for each group that is stuck,"
jq -r 'select(.severity == "loss")
    | if .next_good_offset == null then "# \(.file): nothing readable behind byte \(.position)"
      else "# offsets \(.first_offset // "?") to \(.last_offset // "?") are lost\n" +
          "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group GROUP --topic \(.topic):\(.partition)" +
          " --reset-offsets --to-offset \(.next_good_offset) --execute" end' "$kept/findings.ndjson"
