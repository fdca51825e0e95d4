#!/bin/sh
# CRC errors in a consumer, and there is no other copy: what is lost, and how to get past it
#
# Usage: crc-errors-only-copy.sh PARTITION KEPT
#
#   PARTITION  the partition directory, for example /var/lib/kafka/data/orders-0
#   KEPT       a directory for what is saved, with room for the damaged segments, outside of log.dirs
#
# Symptoms: as in crc-errors-one-bad-replica.sh; but the replication factor is 1, or every copy is bad.
#
# What it means: the smallest thing that can be lost is a batch: its records share one checksum, and are often
# compressed together. The batches before and after it are good, and consumers can read them: you only have to tell
# them where to go on. Nothing has to be repaired for that, and the broker need not stop.
#
# This never changes anything in the log directory. It saves:
#
#   KEPT/orders-0/findings.ndjson        what is damaged, where, and which offsets are lost
#   KEPT/orders-0/*.log                  the damaged segments as they are now: a single flipped bit can be found
#   KEPT/orders-0/around-damage.ndjson   every record that can be read, with its offset
#
# Do not restart the broker until this is done: after a crash or kill, a start scans segments above the recovery
# point and cuts off everything after the damage. Step 2 says whether that would happen; step 3 saves the records.
# Needs jq.
#
# Call somebody: the owners of the topic, with the offsets of step 1. And whoever replaces disks.

set -eu
[ $# -eq 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2/$(basename "$1")
# Exit code 4 (findings) is expected here; any other failure ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }
mkdir -p "$kept"

echo "1. What is damaged?"
kafkatool verify --deep -v "$partition" || found $?
kafkatool verify -q --deep --format ndjson "$partition" > "$kept/findings.ndjson" || found $?

echo "2. Would a start after a crash make it worse?"
kafkatool recover -q "$partition" || found $?

echo "3. Save the damaged segments, and every record that can be read"
jq -r 'select(.severity == "loss") | .file' "$kept/findings.ndjson" | sort -u | while read -r file; do
    cp -pv "$file" "$kept/"
done
kafkatool cat -q --all --format ndjson "$partition" > "$kept/around-damage.ndjson" || found $?
wc -l < "$kept/around-damage.ndjson"

# Only a group that is stuck at a lost offset has to be moved past it. Stop all its consumers first.
echo "4. How to get past it: for each group that is stuck, stop its consumers and run"
jq -r 'select(.severity == "loss")
    | if .next_good_offset == null then "# \(.file): nothing readable after byte \(.position)"
      else "# offsets \(.first_offset // "?") to \(.last_offset // "?") are lost\n" +
          "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group GROUP --topic \(.topic):\(.partition)" +
          " --reset-offsets --to-offset \(.next_good_offset) --execute" end' "$kept/findings.ndjson"
