#!/bin/sh
# A backfill reads old data, and everybody becomes slow
#
# Usage: page-cache-thrash.sh LOG_DIR PARTITION OLDER_THAN [--apply]
#
#   LOG_DIR     a log directory of the broker, or server.properties
#   PARTITION   what the backfill reads, say '/var/lib/kafka/data/orders-*' (quoted)
#   OLDER_THAN  what nobody else reads, say now-6h
#
# Symptoms: produce and fetch latencies rise on a broker whose load did not; disk reads, where there are none on
# a good day; it began when somebody reset a group to the beginning.
#
# What it means: consumers at the end of the log are served from the page cache, and a backfill fills it with
# old pages that are read once. What it pushes out are the newest ones of everybody else, who then wait for the
# disk, and so does the broker's request handler.
#
# What is done: step 1 shows which group reads where, and whether it is in memory. Step 2 makes the kernel
# forget the old pages of that topic, and nothing else: clean pages only, no data is touched, the active segment
# is left alone. Step 3 reads the newest part back, at most as much as memory has free. Works beside the running
# broker, as its user or root. It relieves; it does not cure: run it again while the backfill goes on.
#
# The cure is to slow the backfill down:
#   kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type users --entity-name NAME \
#       --add-config consumer_byte_rate=20971520
# or to let it read from a follower (client.rack), or from a copy of the disk: kafkatool serve.
#
# Call somebody: if step 1 shows the end of the logs in memory. Then it is not the page cache.

set -eu
[ $# -ge 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
log_dir=$1 partition=$2 older=$3 apply=${4-}

echo "1. What is in memory, and which groups read from the disk?"
kafkatool cache-map --groups "$log_dir"

echo "2. Forget what is older than $older of $partition"
kafkatool cache-map --evict --to "$older" ${apply:+"$apply"} "$partition"

echo "3. Read the newest back"
kafkatool cache-map --warm --from "$older" --max-rate 200M ${apply:+"$apply"} "$log_dir"

echo "4. And now?"
kafkatool cache-map --groups "$log_dir"
