#!/bin/sh
# Copy topics from a directory to a living cluster, through a client
#
# Usage: copy-from-disk.sh PATH TO TOPIC[=NEW]... [--apply]
#
#   PATH   a log directory that no broker uses any more, or one with saved partition directories in it
#   TO     the living cluster, HOST:PORT, where the topics exist, empty, with as many partitions
#   NEW    the name of the topic there, where it is to be another: say orders=orders-restored
#
# The last step of other runbooks. `kafkatool serve` makes PATH look like a broker, on this machine only, and
# copy-topic.py reads from it and writes to the cluster: same partitions, keys, values, headers and timestamps;
# offsets are new. Damaged batches and aborted transactions are left out. Nothing is written to PATH.
#
# Without --apply nothing is written anywhere: it says what would be copied, and what that costs. What is lost
# with it: offsets, so what consumer groups have committed (they begin anew, by time), and transactions, whose
# records come one by one. A topic that is not empty is refused: nobody could tell the copy from what was there,
# and a second run would append all of it again. Create a new one, and give its name.
#
# Without confluent-kafka for copy-topic.py: MirrorMaker is in every Kafka, and reads from `kafkatool serve` as
# from any cluster.
#
# Exit codes: 0 every record was copied; 3 some were refused, or it broke off: run it again, into new topics;
# 5 a topic is not empty; 4 without --apply, it can be done; with it, a transaction that never ended hides what
# stands behind it. Ask the owners whether they want all of it, open transaction included, and run it again with
# SERVE_OPTIONS='--last-stable-offset end', into new topics.

set -eu
[ $# -ge 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
path=$1 to=$2
shift 2

address=$(mktemp)
kafkatool serve -q --listen 127.0.0.1:0 --format ndjson --skip-damage ${SERVE_OPTIONS-} "$path" > "$address" &
server=$!
trap 'kill $server 2>/dev/null || :; rm -f "$address"' EXIT
until [ -s "$address" ]; do
    kill -0 $server 2>/dev/null || { wait $server; exit 3; }
    sleep 0.2
done
port=$(sed -n 's/.*"port": *\([0-9]*\).*/\1/p;q' "$address")
python3 "$(dirname "$0")/copy-topic.py" "127.0.0.1:$port" "$to" "$@"
