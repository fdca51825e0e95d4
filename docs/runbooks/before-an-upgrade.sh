#!/bin/sh
# Before an upgrade, or any other planned restart
#
# Usage: before-an-upgrade.sh CONFIG
#
#   CONFIG  server.properties of the broker; run this for each broker, the day before and right before its restart
#
# Why: at a restart a broker reads what until then it has only written. Any damage on its disks shows up then,
# one broker after the other, and looks as if the new release had caused it. And while one broker is down, the
# copies on the others must be good.
#
# This reads while the broker runs, with idle priority (steps 2 and 3 at most 100 MiB per second), and changes
# nothing.
#
#   1  what a start would meet, all log directories together: checkpoints, topic ids, leftovers, space, limits
#   2  every batch of every log: is this copy good?
#   3  which topics have batches in formats 0 and 1, from before 0.11: brokers still read them, but from 4.0 on
#      they do not convert them for old clients, and clients older than 2.1 cannot connect
#
# Also check with Kafka's tools: kafka-topics.sh --describe --under-replicated-partitions prints nothing, and
# kafka-metadata-quorum.sh describe --status shows no lag. From 3.x to 4.x there is no ZooKeeper any more: if
# CONFIG has zookeeper.connect, migrate first. Raise the metadata version (kafka-features.sh) only days after the
# last broker: you cannot go back to the old release after that.
#
# Exit codes: 0 go; 4 do not, something must be fixed first; 3 not everything could be read. Needs jq.
#
# Call somebody: if step 2 finds a loss. Then do not restart any broker that has another copy of that partition.

set -eu
[ $# -eq 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
config=$1 worst=0
# All steps run; the worst exit code is the verdict: 3 (could not be done), then 4 (findings).
note() { [ "$worst" -eq 3 ] || worst=$1; }

if grep -q '^ *zookeeper.connect *=' "$config"; then
    echo "zookeeper.connect is set: this broker cannot go to 4.x until its cluster is migrated to KRaft"
    note 4
fi

echo "1. What would a start meet?"
kafkatool doctor "$config" || note $?

echo "2. Is every batch good?"
kafkatool verify --max-rate 100M "$config" || note $?

echo "3. Topics with batches in formats 0 and 1, one per line:"
kafkatool stats -q --by topic --format ndjson --max-rate 100M "$config" |
    jq -r 'select(.by == "topic" and .magics != null) | select(.magics | has("0") or has("1")) | .topic'

exit "$worst"
