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
# First check whether you need this at all: if another replica is in sync, crc-errors-one-bad-replica.sh is shorter
# and loses nothing. Step 1 names the replicas if the cluster's metadata is on this disk.
#
# What it means: after a crash the broker scanned a segment and met a batch whose offset cannot be in it: below the
# number in the file's name, or more than 2^31 above. The base offset is the one field of a batch that no checksum
# covers. Either this field is damaged, or the whole file has the wrong name, for example after a restore.
#
# What is done: the batches that do not belong there are cut out of the file and its indexes are rebuilt. The
# original is kept. Everything else in the segment stays readable under the same offsets; consumers see a gap, as
# in a compacted topic. Needs jq.
#
# Add --offline if exit code 5 asks for it: it confirms that no broker on any host uses this directory.
#
# Call somebody: if step 1 lists more than a few batches. Then the file probably has the wrong name, and its
# records belong to another partition or broker.

set -eu
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
partition=$1 kept=$2
shift 2
# Exit code 4 (findings) is expected here; any other failure ends this.
found() { [ "$1" -eq 4 ] || exit "$1"; }
kept=$kept/$(basename "$partition").$(date +%s)
mkdir -p "$kept"

echo "1. What does not belong here, and which replicas are in sync?"
kafkatool verify --format ndjson "$partition" > "$kept/findings.ndjson" || found $?
# Last one first, so that the positions of the earlier ones stay right.
jq -r 'select(.class == "bad_offset" and .severity == "no_start") | [.position, .end_position, .file] | @tsv' \
    "$kept/findings.ndjson" | sort -rn > "$kept/batches.tsv"
jq -r 'select(.class == "bad_offset" and .severity == "no_start")
    | "\(.file) bytes \(.position) to \(.end_position): \(.found), expected \(.expected); in sync: \(.isr)"' \
    "$kept/findings.ndjson"
[ -s "$kept/batches.tsv" ] || { echo "Nothing: this is another problem. Run broker-will-not-start.sh."; exit 4; }
[ "${1-}" = --apply ] || { echo "Nothing was changed; --apply cuts these bytes out."; exit 4; }

# Refuses (5) while a broker on this or another host uses the directory; else it rebuilds an index at most.
kafkatool rebuild-index -q "$@" --backup-dir "$kept" "$partition" || found $?

echo "2. Cut them out"
# The clean shutdown marker would make a broker trust the changed log without a look.
rm -f "$(dirname "$partition")/.kafka_cleanshutdown"
while IFS="$(printf '\t')" read -r from to file; do
    original=$kept/$(basename "$file")
    [ -e "$original" ] || cp -p "$file" "$original"
    cp -p "$file" "$file.tmp" # to keep owner and mode
    { head -c "$from" "$file" && tail -c "+$((to + 1))" "$file"; } > "$file.tmp"
    touch -r "$original" "$file.tmp"
    sync
    mv "$file.tmp" "$file"
done < "$kept/batches.tsv"

echo "3. Rebuild the indexes: the bytes after the cut have moved"
kafkatool rebuild-index -q "$@" --backup-dir "$kept" "$partition"

echo "4. What would a broker do with it now?"
kafkatool recover -q "$partition"
