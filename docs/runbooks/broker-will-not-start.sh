#!/bin/sh
# A broker will not start, or starts and serves nothing
#
# Usage: broker-will-not-start.sh CONFIG
#
#   CONFIG  server.properties of the broker: all its log directories are checked together
#
# First read the last ERROR in server.log, and note the file that it names. Then run this. It follows the start as
# the broker would, changes nothing, and reports how the start ends, what it would lose, and for each finding the
# command to run next.
#
#   the log says                                                       go on with
#   Malformed line / Unrecognized version / Expected N entries in      bad-checkpoint.sh
#       checkpoint file; or it says "started" and leads nothing
#   Split operation is only permitted for segments with overflow       offsets-outside-a-segment.sh
#   Found a corrupted index file; the start takes hours                corrupt-index.sh, or wait: it is working
#   No space left on device                                            disk-full.sh
#   Duplicate log directories found; Found directory ... is not in     two copies of a partition, or a directory
#       the form of topic-partition                                    like lost+found: move it out of log.dirs
#   Invalid cluster.id, Configured node ID ... doesn't match           the wrong disk, or the wrong config: stop
#   Failed to acquire lock on file .lock                               the broker already runs
#
# Three rules:
#   - Do not delete anything. Move it out of log.dirs: a broker fails on directories there that it does not know.
#   - Do not start the broker "to see". A start after a crash cuts logs, and what is cut is gone. Exit code 4 means
#     that you must look at something first.
#   - If other replicas are in sync, you can do without this copy: set the damaged partition aside with
#     crc-errors-one-bad-replica.sh, and the broker fetches it again.
#
# Exit codes: 0 it would start and lose nothing; 4 it would not start, or would lose something; 3 not everything
# could be read.
#
# Call somebody: if it would lose offsets of a partition that has no other replica in sync.

set -eu
[ $# -eq 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }

kafkatool doctor "$1"
