#!/bin/sh
# A broker is dead, and it had the only copy
#
# Usage: dead-broker.sh LOG_DIR                                  what is on the disk, and how much of it is good?
#        dead-broker.sh LOG_DIR TO TOPIC[=NEW]... [--apply]      copy topics to a running cluster
#
#   LOG_DIR  a log directory of the dead broker: its disk, mounted read-only on another machine, or an image
#   TO       the running cluster, HOST:PORT, where the topics exist, empty, with as many partitions
#   NEW      the name of the topic there, if its own name is taken: for example orders=orders-restored
#
# Symptoms: kafka-topics.sh --describe --unavailable-partitions shows Leader: none and Isr: the dead broker; the
# host does not come back, but the disk might.
#
# Try this first, because it keeps offsets and groups: put the disk into another host, with the same
# server.properties (node.id, log.dirs), and start Kafka there. Step 2 says whether it would start.
# Go on here only if that is impossible or takes too long: records are read from the disk and written to the
# cluster again.
#
# Rules for the disk: mount it read-only (mount -o ro,noload for ext4, ro,norecovery for XFS). If it gives I/O
# errors, stop, make an image first (ddrescue), and work on the image: every further read may be its last. Never
# let Kafka's unclean.leader.election decide while this disk might still be read.
#
# What the copy costs: offsets are new, so what groups had committed does not fit it, and they start again by time;
# records of transactions arrive one by one. The old commits are in __consumer_offsets, on the same disk if that
# had its only copy there too: kafkatool serve reads them, and clients can ask it. Without --apply the second form
# only shows what it would copy. It refuses (5) a topic that is not empty: then give a new name.
#
# Step 3 reads everything. Exit code 0: all is good; 4: some is not, and the table shows which offsets are lost.
# The copy leaves out exactly those.
#
# Call somebody: before the first read, if the disk makes noises. And the owners of the topics that step 3 lists.

set -eu
[ $# -ge 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
log_dir=$1
shift
# Exit code 4 (findings) is no reason to stop; any other failure is.
found() { [ "$1" -eq 4 ] || exit "$1"; }
[ $# -eq 0 ] || exec "$(dirname "$0")/copy-from-disk.sh" "$log_dir" "$@"

echo "1. What is here, and up to which time?"
kafkatool ls "$log_dir"
kafkatool serve --list "$log_dir"

echo "2. Would a broker start on it, on another host?"
kafkatool doctor --elsewhere "$log_dir" || found $?

echo "3. How much of it is good?"
kafkatool verify "$log_dir"
