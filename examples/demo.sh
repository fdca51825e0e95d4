#!/bin/sh
# Show the main commands on a sample log directory: sh examples/demo.sh DIR (see `make demo`). DIR is not changed.
set -eu

dir=$1
copy=$dir-copy
export LC_ALL=C.UTF-8

width=0 bold='' plain=''
if [ -t 1 ]; then
    width=$(tput cols 2>/dev/null || echo 80)
    if [ -z "${NO_COLOR:-}" ]; then
        bold=$(printf '\033[1m') plain=$(printf '\033[0m')
    fi
fi

say() { printf '\n\n%s# %s%s\n' "$bold" "$*" "$plain"; }

# Show a command, run it, and print its exit code if that is not 0. On a terminal long lines are folded.
show() { run broken "$@"; }

# The same, with long lines cut to the width of the terminal, so that tables stay readable.
table() { run cut_off "$@"; }

run() {
    fit=$1
    shift
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    code=0
    printed=$("$@" 2>&1) || code=$?
    if [ -n "$printed" ]; then printf '%s\n' "$printed" | "$fit"; fi
    [ "$code" -eq 0 ] || printf '[exit code %s]\n' "$code"
}

broken() { if [ "$width" -gt 0 ]; then fold -s -w "$width"; else cat; fi; }

cut_off() { if [ "$width" -gt 0 ]; then sed -E "s/^(.{$((width - 1))}).{2,}\$/\1…/"; else cat; fi; }

say "What is on this disk? Leftovers and sparse indexes are counted too."
table kafkatool ls "$dir"

say "The segments of one partition. The first is waiting to be deleted."
table kafkatool ls --segments "$dir/orders-0"

say "What is in this log? The text is exactly that of kafka-dump-log."
table kafkatool dump-log --files "$dir/orders-0/00000000000000000003.log"

say "Its records, as a table: null, empty and binary values look different."
table kafkatool dump-log --format table --print-data-log --from 3 "$dir/orders-0"

say "Transactions: what was committed, and what was aborted?"
table kafkatool dump-log --format table "$dir/payments-0"
show kafkatool dump-log --files "$dir/payments-0/00000000000000000000.txnindex"

say "The same log as a consumer would get it, and then all of it."
show kafkatool cat "$dir/payments-0"
show kafkatool cat --all -f '%o %k=%s\n' --control none "$dir/payments-0"

say "Export records for other programs: Parquet, Arrow, CSV, NDJSON. A second run writes only what is new."
rm -rf "$dir-csv"
show kafkatool export --format csv -o "$dir-csv" "$dir/orders-0"
show kafkatool export --format csv -o "$dir-csv" "$dir/orders-0"
rm -rf "$dir-csv"

say "NDJSON for scripts: the last record of one visitor."
show kafkatool dump-log --format ndjson --print-data-log --key visitor-2 --tail 1 "$dir/clicks-0"

say "Internal topics are decoded automatically: what did the group billing commit?"
show kafkatool dump-log --format ndjson --print-data-log --tail 1 "$dir/__consumer_offsets-7"

say "How much is in these logs, and which keys are most frequent?"
table kafkatool stats --deep "$dir/orders-0"

say "Where does a consumer start that asks for a time? Step by step:"
show kafkatool lookup --time 2026-03-01T09:02:00Z --explain "$dir/clicks-0"

say "Will a broker start on this disk, and what would it lose?"
show kafkatool doctor --elsewhere "$dir"

say "Is anything damaged? Every batch and every index, snapshot and checkpoint is checked."
show kafkatool verify "$dir"

say "All of this in one HTML page for the ticket: no payloads, no script, no network."
show kafkatool report -o "$dir-report.html" "$dir"

say "Where exactly is the damage? It is a row in its place, and reading continues after it."
table kafkatool dump-log --format table "$dir/clicks-1"

say "Now repair a copy. An index is lost, and rebuilt from the log."
rm -rf "$copy" && cp -a "$dir" "$copy"
show rm "$copy/orders-0/00000000000000000003.timeindex"
table kafkatool rebuild-index "$copy/orders-0"
table kafkatool rebuild-index -q --apply "$copy/orders-0"

say "What would a broker do with the damage at its next start? Here, what it would cut is kept."
show kafkatool recover "$copy/clicks-1" --keep-after-damage "$copy-saved"
show kafkatool recover -q --apply "$copy/clicks-1"
show kafkatool verify "$copy"

say "Was that wrong? Every change is in a journal, and --undo reverses it."
table kafkatool recover --undo "$copy"/recover.kafkatool-* --apply
rm -rf "$copy" "$copy-saved"

say "What would a broker delete with a retention of one hour, and why not the rest?"
table kafkatool retention --at 2026-03-01T10:04:00Z --set retention.ms=3600000 "$dir/orders-0" "$dir/clicks-0"

say "What would the log cleaner remove, if this topic were compacted?"
table kafkatool compact --set cleanup.policy=compact --at 2026-03-01T10:00:00Z "$dir/orders-0"

say "What would clients see, if kafkatool served this disk to kcat or to your own programs?"
table kafkatool serve --list "$dir"

say "What is in the page cache, and would the group billing have to wait for the disk?"
table kafkatool cache-map --groups "$dir/orders-0"

say "Where did the space on the disk go?"
table kafkatool ls --space "$dir"

if python -c 'import sys; from kafkatool.spark.session import java_version; import pyspark; sys.exit((java_version() or 0) < 17)' 2>/dev/null
then
    say "The audit of a fleet, on Spark, as Parquet tables. A second run reads only what is new."
    rm -rf "$dir-lake"
    table kafkatool pipeline run --out "$dir-lake" "broker-1=$dir"
    table kafkatool pipeline report "$dir-lake"
    rm -rf "$dir-lake"

    say "And what Kafka itself cannot answer: everything about one visitor."
    table kafkatool sql "SELECT topic, partition, offset, json(value, 'page') AS page FROM records WHERE utf8(key) = 'visitor-2' ORDER BY 1, 2, 3" "$dir"
else
    say "\`kafkatool pipeline\` audits a fleet, and \`kafkatool sql\` queries logs with SQL, on Spark. They need Java 17"
    echo "(Debian: apt install openjdk-17-jre-headless) and pyspark (pip install '.[spark]'). Install them and run this again."
fi
