#!/bin/sh
# A broker will not start, or starts and serves nothing
#
# Usage: broker-will-not-start.sh CONFIG
#
#   CONFIG  server.properties of the broker: all its log directories are judged together
#
# What to do first: read the last ERROR in server.log and the file that it names. Then run this: it goes through
# the start as the broker would, changes nothing, and says how it ends, what it would lose, and, for each thing
# found, the command that comes next.
#
#   the log says                                                       go on with
#   Malformed line / Unrecognized version / Expected N entries in      bad-checkpoint.sh
#       checkpoint file; or it says "started" and leads nothing
#   Split operation is only permitted for segments with overflow       offsets-outside-a-segment.sh
#   Found a corrupted index file; it takes hours                       corrupt-index.sh, or wait: it is at work
#   No space left on device                                            disk-full.sh
#   Duplicate log directories found; Found directory ... is not in     two copies of a partition, or a directory
#       the form of topic-partition                                    like lost+found: move it out of log.dirs
#   Invalid cluster.id, Configured node ID ... doesn't match           the wrong disk, or another's config: stop
#   Failed to acquire lock on file .lock                               it runs already
#
# Three rules. Do not delete anything: move it, outside of log.dirs, since a broker fails on directories that it
# does not know. Do not start it "to see": an unclean start cuts logs, and what is cut is gone; exit code 4 says
# that there is something to see before. And with other replicas in sync, an empty disk is a fine disk: set the
# damaged partition aside (crc-errors-one-bad-replica.sh) and let it be fetched.
#
# Exit codes: 0 it would start and lose nothing; 4 it would not, or would lose something; 3 not everything could
# be read.
#
# Call somebody: if it would lose offsets of a partition that has no other replica in sync.

set -eu
[ $# -eq 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }

kafkatool doctor "$1"
