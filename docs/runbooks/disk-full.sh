#!/bin/sh
# A disk is full, and retention did not delete
#
# Usage: disk-full.sh CONFIG SIZE
#        disk-full.sh CONFIG SIZE PARTITIONS SETTING MOVE_TO [--apply [--offline]]
#
#   CONFIG      server.properties of the broker: where its logs are, and what it goes by
#   SIZE        how much has to be freed, say 50G
#   PARTITIONS  those to take from, say '/var/lib/kafka/data/clicks-*' (quoted)
#   SETTING     the rule for them, say retention.ms=86400000 (a day) or retention.bytes=10737418240 (10 GiB)
#   MOVE_TO     a directory on another volume: segments go there instead of being deleted
#
# Symptoms: "No space left on device", a log directory offline, a broker that stopped and does not come up.
#
# What it means: a broker deletes whole segments, oldest first, and stops at the first that must stay. It looks
# every 5 minutes and unlinks a minute later. So the usual reasons are: retention is longer or larger than
# somebody thought; the topic is compacted, which is no retention at all; the active segment is never deleted
# before it rolls (segment.ms is 7 days); a producer's clock is in the future, and one such record holds its
# segment and all behind it; or it is not Kafka's data that fills the disk.
#
# While the broker runs, the first form prints commands: first those that delete records which have expired and
# are only held back by a time in the future, with what they delete, for that is for good; then changes of
# settings, the smallest first, and what leads back. The broker then deletes by itself, on all replicas.
#
# When it does not come up any more, free some room by hand: the second form moves the oldest segments of some
# partitions, by the rule that you give, to another volume. After the broker's next start they are gone for its
# consumers too, so take a topic, and a rule, that its owners agree to.
#
# Never rm a segment by hand: the log start checkpoint has to move with it. Never touch the newest segment.
#
# Call somebody: if step 1 shows the space under "unexplained" or "deleted but still open": that is not Kafka's
# to free (a restart frees the latter).

set -eu
[ $# -eq 2 ] || [ $# -ge 5 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
config=$1 size=$2
shift 2

echo "1. Where did the space go?"
kafkatool ls --space "$config"
kafkatool ls -q --topics --sort allocated --limit 10 "$config"

echo "2. What would the next check delete, and what keeps the rest?"
kafkatool retention --check-times "$config"

if [ $# -eq 0 ]; then
    echo "3. What is only held back, and the smallest changes, that free $size:"
    exec kafkatool retention -q --free "$size" "$config"
fi

partitions=$1 setting=$2 move_to=$3
shift 3
# --apply refuses (5) while a broker runs here. The journal in each log directory leads back, by the command that
# it prints: kafkatool retention --undo JOURNAL --backup-dir DIR --apply.
echo "3. Those of $partitions that go by $setting, to $move_to:"
kafkatool retention "$@" --config "$config" --set "$setting" --move-to "$move_to" "$partitions"
[ "${1-}" = --apply ] || exit 0

echo "4. What is free now, and would a broker start on the rest?"
kafkatool ls --space "$config"
kafkatool recover -q "$config"
