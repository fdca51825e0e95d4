#!/bin/sh
# A broker does not start: "Split operation is only permitted for segments with overflow"
#
# Usage: offsets-outside-a-segment.sh PARTITION KEPT [--apply [--offline]]
#
#   PARTITION  the partition directory that the broker was loading
#   KEPT       a directory for the originals, on any volume, outside of every log directory
#
# Symptoms: the line above, or "Detected offset overflow", and the broker stops, every time.
#
# What it means: after an unclean stop the broker scanned a segment and met a batch whose offset cannot be in
# it: below the number in the file's name, or more than 2^31 above. The base offset is the one field of a batch
# that no checksum covers. Either it was damaged alone, or the whole file has the wrong name, as after a
# restore.
#
# What is done: the batches that do not belong are cut out of the file, whose original is kept, and the indexes
# are made again. Everything else in the segment stays readable under the offsets that it had; consumers see a
# gap, as in a compacted topic. Needs jq.
#
# First ask whether it needs any surgery: with another replica in sync, crc-errors-one-bad-replica.sh is shorter and loses nothing.
# Step 1 names the replicas where the metadata is on this disk.
#
# --offline, where exit code 5 asks for it: no other host uses this directory, I know.
#
# Call somebody: if step 1 lists more than a few batches. Then the file has probably the wrong name, and its
# records belong to another partition or broker.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2
shift 2
# Findings are what we came for; any other exit code ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }
kept=$kept/$(basename "$partition").$(date +%s)
mkdir -p "$kept"

echo "1. What does not belong here, and who else has this partition?"
kafkatool verify --format ndjson "$partition" > "$kept/findings.ndjson" || found $?
# From the back, so that the positions of those before stay right.
jq -r 'select(.class == "bad_offset" and .severity == "no_start") | [.position, .end_position, .file] | @tsv' \
    "$kept/findings.ndjson" | sort -rn > "$kept/batches.tsv"
jq -r 'select(.class == "bad_offset" and .severity == "no_start")
    | "\(.file) bytes \(.position) to \(.end_position): \(.found), expected \(.expected); in sync: \(.isr)"' \
    "$kept/findings.ndjson"
[ -s "$kept/batches.tsv" ] || { echo "Nothing: this is another problem; see broker-will-not-start.sh."; exit 4; }
[ "${1-}" = --apply ] || { echo "Nothing was changed; --apply cuts these bytes out."; exit 4; }

# Refused (5) while a broker uses the directory, from this host or another; else at most an index is made anew.
kafkatool rebuild-index -q "$@" --backup-dir "$kept" "$partition" || found $?

echo "2. Cut them out"
# The mark of a clean shutdown vouches for what was there before.
rm -f "$(dirname "$partition")/.kafka_cleanshutdown"
while IFS="$(printf '\t')" read -r from to file; do
    original=$kept/$(basename "$file")
    [ -e "$original" ] || cp -p "$file" "$original"
    cp -p "$file" "$file.tmp" # for its owner and mode
    { head -c "$from" "$file" && tail -c "+$((to + 1))" "$file"; } > "$file.tmp"
    touch -r "$original" "$file.tmp"
    sync
    mv "$file.tmp" "$file"
done < "$kept/batches.tsv"

echo "3. The bytes behind have moved: indexes anew"
kafkatool rebuild-index -q "$@" --backup-dir "$kept" "$partition"

echo "4. What would a broker do with it now?"
kafkatool recover -q "$partition"
