#!/bin/sh
# A broker is dead, and it had the only copy
#
# Usage: dead-broker.sh LOG_DIR                                  what is on the disk, and what of it is whole?
#        dead-broker.sh LOG_DIR TO TOPIC[=NEW]... [--apply]      copy topics to a living cluster
#
#   LOG_DIR  a log directory of the dead broker: its disk, mounted read-only on another machine, or an image
#   TO       the living cluster, HOST:PORT, where the topics exist, empty, with as many partitions
#   NEW      the name of the topic there, where its own is taken: say orders=orders-restored
#
# Symptoms: kafka-topics.sh --describe --unavailable-partitions shows Leader: none and Isr: the dead broker; the
# host does not come back, the disk might.
#
# What to try first, for it keeps offsets and groups: put the disk into another host, with the same
# server.properties (node.id, log.dirs), and start Kafka there. Step 2 says whether it would.
# Only where that is impossible, or too late, go on here: records are read from the disk and written to the
# cluster again.
#
# Rules for the disk: mount it read-only (mount -o ro,noload for ext4, ro,norecovery for XFS). If it gives I/O
# errors, stop and image it first (ddrescue), and work on the image: every further read may be its last. Never
# let Kafka's unclean.leader.election decide while this disk might still be read.
#
# What the copy costs: offsets are new, so what groups had committed does not fit it, and they begin anew, by time;
# records of transactions come one by one. What the groups had committed is in __consumer_offsets, on the same disk
# if it was the only copy there too: kafkatool serve knows it, and clients can ask. Without --apply the second form
# only says what it would copy. It refuses (5) a topic that is not empty: give a new name then.
#
# Step 3 reads everything. Exit code 0: all is whole; 4: some is not, and the table says which offsets are lost.
# The copy leaves exactly those out.
#
# Call somebody: before the first read, if the disk makes noises. And the owners of what step 3 calls lost.

set -eu
[ $# -ge 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
log_dir=$1
shift
# Findings are told and no reason to stop; any other exit code is one.
found() { [ "$1" -eq 4 ] || exit "$1"; }
[ $# -eq 0 ] || exec "$(dirname "$0")/copy-from-disk.sh" "$log_dir" "$@"

echo "1. What is here, and until when?"
kafkatool ls "$log_dir"
kafkatool serve --list "$log_dir"

echo "2. Would a broker start on it, in another host?"
kafkatool doctor --elsewhere "$log_dir" || found $?

echo "3. What of it is whole?"
kafkatool verify "$log_dir"
