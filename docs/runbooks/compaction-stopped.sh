#!/bin/sh
# Compaction stopped: a compacted topic only grows
#
# Usage: compaction-stopped.sh CONFIG PARTITION KEPT [--apply [--offline]]
#
#   CONFIG     server.properties of the broker: what its cleaner goes by
#   PARTITION  the partition directory of a compacted topic, say /var/lib/kafka/data/__consumer_offsets-7
#   KEPT       a directory for the originals, on any volume, outside of every log directory
#
# Symptoms: __consumer_offsets or a changelog of many gigabytes, slow starts of group coordinators and stream
# applications; the metric uncleanable-partitions-count above 0; in log-cleaner.log "Unexpected exception
# thrown when cleaning log ... Marking its partition as uncleanable".
#
# What it means: one of
#   - the cleaner met damage in this partition and has given it up until the broker is restarted;
#   - nothing is wrong: too little is dirty (min.cleanable.dirty.ratio), or it is too young
#     (min.compaction.lag.ms), or an open transaction or the active segment ends the range;
#   - the map of keys is too small: one pass takes only a part (log.cleaner.dedupe.buffer.size);
#   - cleaner-offset-checkpoint cannot be read, and no partition of that disk is cleaned: bad-checkpoint.sh.
# Step 2 tells which: it cleans as the broker would, without writing, and says why a range ends where it ends.
#
# Exit code 0 means that a cleaner would get through, 4 that it would give up, and where. Damage is no work for
# a cleaner: crc-errors-one-bad-replica.sh if there is another copy. If there is none, see what is lost with
# crc-errors-only-copy.sh, then let the application write its state anew.
#
# When nothing is wrong but time is short, a broker that is stopped anyway can have it done here: --apply.
# Originals are kept, the journal leads back.
#
# Call somebody: if it is __consumer_offsets or __transaction_state and step 2 ends with 4.

set -eu
[ $# -ge 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
config=$1 partition=$2 kept=$3
shift 3

echo "1. How far did the cleaner come, on this disk?"
checkpoint=$(dirname "$partition")/cleaner-offset-checkpoint
if [ -e "$checkpoint" ]; then kafkatool dump-log --format table "$checkpoint"; fi

echo "2. What would it do next, and how far would it come?"
kafkatool compact -v "$@" ${1:+--until-stable --backup-dir "$kept"} --config "$config" "$partition"
