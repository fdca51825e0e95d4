#!/bin/sh
# Every night: does the disk still return what the broker wrote?
#
# Usage: nightly-scrub.sh PATH STATE
#
#   PATH   server.properties, or a log directory
#   STATE  a file that remembers what was found good, for example /var/lib/kafkatool/scrub.json
#
# In /etc/cron.d/kafkatool, as the broker's user. Cron mails what this prints, and it prints nothing if all is well:
#
#   MAILTO=oncall@example.com
#   17 2 * * *  kafka  /opt/kafkatool/runbooks/nightly-scrub.sh /etc/kafka/server.properties /var/lib/kafkatool/scrub.json
#
# Why: a broker checks a batch when it is produced, and never again. If the disk loses it, nobody notices until
# somebody reads it, perhaps after the last good replica is gone. Kafka has no scrub.
#
# This reads while the broker runs, with idle I/O priority, at most 50 MiB per second, and leaves the page cache as
# it was. Disks decay by themselves, so closed segments that were good and have not changed are read again in turn:
# 4 % of their bytes every night, and everything last read more than 30 days ago.
#
# Exit codes: 0 all is well, or last night's run is still going on; 4 findings: the mail says what to do, and README.md
# which runbook to use; others: it could not be done.
#
# Call somebody: on severity `loss`: in the morning if other replicas are in sync, now if not.

set -eu
[ $# -eq 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
path=$1 state=$2

exec 9> "$state.lock"
flock -n 9 || exit 0

code=0
said=$(nice kafkatool verify -v --no-progress --state "$state" --max-rate 50M "$path" 2>&1) || code=$?
[ "$code" -eq 0 ] || printf '%s on %s:\n%s\n' "kafkatool verify, exit code $code," "$(hostname)" "$said"
exit "$code"
