#!/bin/sh
# Copy topics from a directory to a running cluster, through a client
#
# Usage: copy-from-disk.sh PATH TO TOPIC[=NEW]... [--apply]
#
#   PATH   a log directory that no broker uses any more, or a directory with saved partition directories
#   TO     the running cluster, HOST:PORT, where the topics exist, empty, with as many partitions
#   NEW    the name of the topic there, if it is another one: for example orders=orders-restored
#
# This is the last step of other runbooks. `kafkatool serve` makes PATH look like a broker, on this machine only,
# and copy-topic.py reads from it and writes to the cluster: same partitions, keys, values, headers and
# timestamps, but new offsets. Damaged batches and aborted transactions are left out. Nothing is written to PATH.
#
# Without --apply nothing is written anywhere: it shows what would be copied, and what the copy costs. Two things
# are lost: offsets, so what consumer groups have committed does not fit the copy (let them start again by time),
# and transactions, whose records arrive one by one. A topic that is not empty is refused: nobody could tell the
# copy from what was there, and a second run would append everything again. Create a new topic and give its name.
#
# If you have no confluent-kafka for copy-topic.py: MirrorMaker comes with every Kafka, and can read from
# `kafkatool serve` as from any cluster.
#
# Exit codes:
#   0  every record was copied
#   3  some were refused, or it broke off: run it again, into new topics
#   4  without --apply: the copy can be made. With --apply: a transaction that never ended hides the records after
#      it. Ask the owners whether they want them all, those of the open transaction included. If so, run this again
#      with SERVE_OPTIONS='--last-stable-offset end', into new topics
#   5  a topic is not empty

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
