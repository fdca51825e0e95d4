#!/bin/sh
# A disk is full, and retention did not delete
#
# Usage: disk-full.sh CONFIG SIZE
#        disk-full.sh CONFIG SIZE PARTITIONS SETTING MOVE_TO [--apply [--offline]]
#
#   CONFIG      server.properties of the broker: where its logs are, and its settings
#   SIZE        how much to free, for example 50G
#   PARTITIONS  those to take from, for example '/var/lib/kafka/data/clicks-*' (quoted)
#   SETTING     the rule for them, for example retention.ms=86400000 (a day) or retention.bytes=10737418240 (10 GiB)
#   MOVE_TO     a directory on another volume: segments go there instead of being deleted
#
# Symptoms: "No space left on device", a log directory offline, a broker that stopped and does not start again.
#
# What it means: a broker deletes whole segments, oldest first, and stops at the first that must stay. It looks
# every 5 minutes and unlinks a minute later. The usual reasons why that is not enough:
#   - retention is longer or larger than somebody thought;
#   - the topic is compacted, and compaction does not delete by age or size;
#   - the active segment is never deleted before it rolls (segment.ms is 7 days);
#   - a producer's clock is in the future: one such record keeps its segment and all after it;
#   - something other than Kafka's data fills the disk.
#
# While the broker runs, use the first form: it prints commands. First come those that delete expired records which
# only a time in the future holds back, with what they delete, because that is for good. Then come changes of
# settings, smallest first, each with the command to undo it. The broker then deletes by itself, on all replicas.
#
# If the broker does not start any more, free some space by hand: the second form moves the oldest segments of some
# partitions, by the rule that you give, to another volume. After the broker's next start consumers cannot read
# them any more, so choose a topic and a rule that its owners agree to.
#
# Never rm a segment by hand: the log start checkpoint has to move with it. Never touch the newest segment.
#
# Add --offline if exit code 5 asks for it: it confirms that no broker on any host uses this directory.
#
# Call somebody: if step 1 shows the space under "unexplained" or "deleted but still open". Kafka cannot free the
# first; a restart of the process that holds the files frees the second.

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
    echo "3. Expired data that is only held back, and the smallest changes that free $size:"
    exec kafkatool retention -q --free "$size" "$config"
fi

partitions=$1 setting=$2 move_to=$3
shift 3
# --apply refuses (5) while a broker runs here. To go back, run the command that it prints for each log directory:
# kafkatool retention --undo JOURNAL --backup-dir DIR --apply.
echo "3. Segments of $partitions that $setting moves to $move_to:"
kafkatool retention "$@" --config "$config" --set "$setting" --move-to "$move_to" "$partitions"
[ "${1-}" = --apply ] || exit 0

echo "4. What is free now, and would a broker start on the rest?"
kafkatool ls --space "$config"
kafkatool recover -q "$config"
