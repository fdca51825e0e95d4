#!/bin/sh
# A backfill reads old data, and everybody becomes slow
#
# Usage: page-cache-thrash.sh LOG_DIR PARTITION OLDER_THAN [--apply]
#
#   LOG_DIR     a log directory of the broker, or server.properties
#   PARTITION   what the backfill reads, for example '/var/lib/kafka/data/orders-*' (quoted)
#   OLDER_THAN  what nobody else reads, for example now-6h
#
# Symptoms: produce and fetch latencies rise on a broker whose load did not; its disk is read, which it is not on a
# good day; it began when somebody reset a group to the beginning.
#
# What it means: consumers at the end of the log are served from the page cache. A backfill fills the cache with
# old pages that are read once, and pushes out everybody else's newest pages. Those consumers then wait for the
# disk, and so do the broker's request handlers.
#
# What is done: step 1 shows where each group reads, and whether that is in memory. Step 2 makes the kernel drop the
# old pages of that topic, and nothing else: only clean pages, so no data is touched, and never those of the active
# segment. Step 3 reads the newest data back, at most as much as memory has free. Run it as the broker's user or
# root, while the broker runs. The relief does not last: run it again while the backfill goes on.
#
# The cure is to slow the backfill down:
#   kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type users --entity-name NAME \
#       --add-config consumer_byte_rate=20971520
# or to let it read from a follower (client.rack), or from a copy of the disk with kafkatool serve.
#
# Call somebody: if step 1 shows that the end of the logs is in memory. Then the page cache is not the cause.

set -eu
[ $# -ge 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
log_dir=$1 partition=$2 older=$3 apply=${4-}

echo "1. What is in memory, and which groups read from disk?"
kafkatool cache-map --groups "$log_dir"

echo "2. Drop the pages of $partition that are older than $older"
kafkatool cache-map --evict --to "$older" ${apply:+"$apply"} "$partition"

echo "3. Read the newest data back"
kafkatool cache-map --warm --from "$older" --max-rate 200M ${apply:+"$apply"} "$log_dir"

echo "4. What is in memory now?"
kafkatool cache-map --groups "$log_dir"
