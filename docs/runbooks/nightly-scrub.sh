#!/bin/sh
# Every night: does every byte still say what it said?
#
# Usage: nightly-scrub.sh PATH STATE
#
#   PATH   server.properties, or a log directory
#   STATE  a file that remembers what was found good, say /var/lib/kafkatool/scrub.json
#
# In /etc/cron.d/kafkatool, as the broker's user; cron mails what is printed, and nothing is printed when all is
# well:
#
#   MAILTO=oncall@example.com
#   17 2 * * *  kafka  /opt/kafkatool/runbooks/nightly-scrub.sh /etc/kafka/server.properties /var/lib/kafkatool/scrub.json
#
# Why: a broker checks a batch when it is produced and never again. A disk that forgets is noticed when somebody
# reads, perhaps after the last good replica has gone. Kafka has no scrub.
#
# It reads beside the running broker with idle I/O priority, at 50 MiB a second at most, and leaves the page cache
# as it was. Closed segments that were good and have not changed since are read again in turn, for disks decay by
# themselves: 4 % of their bytes every night, and all that was last read 30 days ago.
#
# Exit codes: 0 all is well, or the night before is still at it; 4 findings: the mail says what to do, and
# README.md which runbook; others: it could not be done.
#
# Call somebody: on severity `loss`, in the morning if other replicas are in sync, now if not.

set -eu
[ $# -eq 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
path=$1 state=$2

exec 9> "$state.lock"
flock -n 9 || exit 0

code=0
said=$(nice kafkatool verify -v --no-progress --state "$state" --max-rate 50M "$path" 2>&1) || code=$?
[ "$code" -eq 0 ] || printf '%s on %s:\n%s\n' "kafkatool verify, exit code $code," "$(hostname)" "$said"
exit "$code"
