#!/bin/sh
# Compaction stopped: a compacted topic only grows
#
# Usage: compaction-stopped.sh CONFIG PARTITION KEPT [--apply [--offline]]
#
#   CONFIG     server.properties of the broker: the settings of its cleaner
#   PARTITION  the partition directory of a compacted topic, for example /var/lib/kafka/data/__consumer_offsets-7
#   KEPT       a directory for the originals, on any volume, outside of every log directory
#
# Symptoms: __consumer_offsets or a changelog has many gigabytes; group coordinators and stream applications start
# slowly; the metric uncleanable-partitions-count is above 0; log-cleaner.log has "Unexpected exception thrown when
# cleaning log ... Marking its partition as uncleanable".
#
# What it means: one of
#   - the cleaner met damage in this partition, and ignores the partition until the broker restarts;
#   - nothing is wrong: too little is dirty (min.cleanable.dirty.ratio), or it is too young
#     (min.compaction.lag.ms), or the range ends at an open transaction or at the active segment;
#   - the map of keys is too small: one pass cleans only a part (log.cleaner.dedupe.buffer.size);
#   - cleaner-offset-checkpoint cannot be read, and no partition of that disk is cleaned: bad-checkpoint.sh.
# Step 2 shows which one: it cleans as the broker would, without writing, and says why a range ends where it ends.
#
# Exit codes: 0 a cleaner would finish; 4 it would fail, and the output says where. Compaction does not repair
# damage. If there is another copy, use crc-errors-one-bad-replica.sh. If there is none, see what is lost with
# crc-errors-only-copy.sh, then let the application write its state again.
#
# If nothing is wrong but you need the space or the speed now, --apply compacts here, while the broker is stopped.
# Originals are kept, and the command that it prints goes back.
#
# Add --offline if exit code 5 asks for it: it confirms that no broker on any host uses this directory.
#
# Call somebody: if it is __consumer_offsets or __transaction_state and step 2 ends with 4.

set -eu
[ $# -ge 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
config=$1 partition=$2 kept=$3
shift 3

echo "1. How far has the cleaner come on this disk?"
checkpoint=$(dirname "$partition")/cleaner-offset-checkpoint
if [ -e "$checkpoint" ]; then kafkatool dump-log --format table "$checkpoint"; fi

echo "2. What would it do next, and how far would it get?"
kafkatool compact -v "$@" ${1:+--until-stable --backup-dir "$kept"} --config "$config" "$partition"
