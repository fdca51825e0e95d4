#!/bin/sh
# Before an upgrade, or any other restart that you choose the time of
#
# Usage: before-an-upgrade.sh CONFIG
#
#   CONFIG  server.properties of the broker; run it on each of them, the day before and right before its restart
#
# Why: a restart is when a broker reads what it has only written so far. Whatever is wrong on its disks comes to
# light then, one broker after the other, and looks as if the new release had done it. And while a broker is down,
# the copies on the others must be good ones.
#
# It reads beside the running broker, at 100 MiB a second at most, with idle priority, and changes nothing.
#
#   1  what a start would meet, all log directories together: checkpoints, topic ids, leftovers, room, limits
#   2  every batch of every log: is this copy whole?
#   3  which topics hold batches in formats 0 and 1, from before 0.11: brokers still read them, from 4.0 on they
#      convert them for nobody, and clients from before 2.1 are not served any more
#
# Also, with Kafka's tools: kafka-topics.sh --describe --under-replicated-partitions is empty;
# kafka-metadata-quorum.sh describe --status shows no lag; from 3.x to 4.x there is no ZooKeeper any more
# (zookeeper.connect in CONFIG means: migrate first). Raise the metadata version (kafka-features.sh) only days
# after the last broker: there is no way back behind it.
#
# Exit codes: 0 go; 4 do not, something is to be seen to before; 3 not everything could be read. Needs jq.
#
# Call somebody: if step 2 finds a loss, do not restart any broker that has another copy of that partition.

set -eu
[ $# -eq 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
config=$1 worst=0
# All steps are taken; the worst exit code is the verdict: could not be done, then found.
note() { [ "$worst" -eq 3 ] || worst=$1; }

if grep -q '^ *zookeeper.connect *=' "$config"; then
    echo "zookeeper.connect is set: this broker cannot go to 4.x before its cluster is migrated to KRaft"
    note 4
fi

echo "1. What would a start meet?"
kafkatool doctor "$config" || note $?

echo "2. Is every batch whole?"
kafkatool verify --max-rate 100M "$config" || note $?

echo "3. Batches in formats 0 and 1, a line a topic:"
kafkatool stats -q --by topic --format ndjson --max-rate 100M "$config" |
    jq -r 'select(.by == "topic" and .magics != null) | select(.magics | has("0") or has("1")) | .topic'

exit "$worst"
