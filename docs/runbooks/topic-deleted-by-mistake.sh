#!/bin/sh
# A topic was deleted by mistake
#
# Usage: topic-deleted-by-mistake.sh LOG_DIR TOPIC SAVED                          now, on every broker
#        topic-deleted-by-mistake.sh LOG_DIR TOPIC SAVED TO [NEW] [--apply]       then, from one place, copy it back
#
#   LOG_DIR  a log directory of the broker; run this for each of them
#   TOPIC    its name
#   SAVED    a directory outside of log.dirs on the SAME file system: the copy is made of hard links
#   TO       the cluster to copy it back to, HOST:PORT, where the topic was created again, empty
#   NEW      the name of the topic there, if somebody has already written to one with the old name
#
# You have ONE MINUTE. Run the first form now and read on later: a hard link costs no time and no space, and the
# data stays when the broker unlinks its own names. A deleted partition is renamed to TOPIC-N.<hex>-delete, and its
# files are unlinked after file.delete.delay.ms, by default 60 s. If the minute is over: stop writing to that file
# system, and call somebody who can undelete files on it. Or look for brokers that were down when it happened: they
# have not deleted yet. Do NOT start them; run the first form there.
#
# What it means for the cluster: the topic and its settings are gone from the metadata; ACLs stay. Kafka has no
# undelete. The data comes back as new records in a new topic: timestamps, keys, headers and partitions are the
# same, offsets are not. Consumer groups start again, by time:
#   kafka-consumer-groups.sh ... --reset-offsets --to-datetime 2026-03-01T09:00:00.000 --execute
#
# Before the second form, create the topic with as many partitions and its old settings, and with retention.ms=-1:
# otherwise the first check would delete the old records again. Without --apply the second form only shows what it
# would copy, and it refuses (5) a topic that is not empty. Step 2 lists the partitions. For those that this broker
# did not have, bring SAVED/TOPIC-N of other brokers here (rsync), one copy of each.
#
# If producers are still writing and order matters, stop them first. With auto.create.topics.enable they may have
# created the topic again already, with default settings.
#
# Call somebody: if a partition is missing in step 2 and no broker has it.

set -eu
[ $# -ge 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
log_dir=$1 topic=$2 saved=$3 to=${4-}
[ $# -lt 4 ] || shift 4
[ -n "$to" ] || shift $#
case ${1-} in "" | --apply) new= ;; *) new="=$1" && shift ;; esac
# Exit code 4 (findings) is no reason to stop; any other failure is.
found() { [ "$1" -eq 4 ] || exit "$1"; }

echo "1. Keep the files"
for directory in "$log_dir/$topic"-*-delete; do
    [ -d "$directory" ] || continue
    name=$(basename "$directory")
    number=${name#"$topic"-} number=${number%%.*}
    # The glob for topic a also matches topic a-1: take only names with a number after the topic.
    case $number in *[!0-9]*) continue ;; esac
    mkdir -p "$saved"
    [ -d "$saved/$topic-$number" ] || cp -al "$directory" "$saved/$topic-$number" ||
        echo "$directory: some of it was already gone"
done
[ -d "$saved" ] || { echo "no deleted partition of $topic in $log_dir" >&2; exit 3; }

echo "2. What has been saved?"
kafkatool verify "$saved" || found $?
kafkatool serve --list "$saved"
[ -n "$to" ] || { echo "Saved. Next: create the topic again, then run the second form."; exit 0; }

echo "3. Copy it back"
"$(dirname "$0")/copy-from-disk.sh" "$saved" "$to" "$topic$new" "$@"
