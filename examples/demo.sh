#!/bin/sh
# The main job, on a sample log directory: sh examples/demo.sh DIR (see `make demo`).
set -eu

dir=$1
export LC_ALL=C.UTF-8

say() { printf '\n\n# %s\n' "$*"; }

# Shows a command, runs it, and says how it ended if that is worth a word.
show() {
    printf '$ %s\n' "$*"
    code=0
    "$@" || code=$?
    [ "$code" -eq 0 ] || printf '[exit code %s]\n' "$code"
}

say "What is on this disk? Deleted partitions, leftovers and sparse indexes are counted too."
show kafkatool ls "$dir"

say "The segments of one partition. The first is waiting to be deleted."
show kafkatool ls --segments "$dir/orders-0"

say "A log, in the very text that kafka-dump-log prints."
show kafkatool dump-log --files "$dir/orders-0/00000000000000000003.log"

say "Its records, as a table: null, empty and binary values are told apart."
show kafkatool dump-log --format table --print-data-log --from 3 "$dir/orders-0"

say "Transactions: what was committed, and what was aborted."
show kafkatool dump-log --format table "$dir/payments-0"
show kafkatool dump-log --files "$dir/payments-0/00000000000000000000.txnindex"

say "Every codec is read. NDJSON for scripts: the last two records of two visitors, without reading the rest."
show kafkatool dump-log --format ndjson --print-data-log --key visitor-0 --key visitor-2 --tail 2 "$dir/clicks-0"

say "Internal topics are decoded without being asked: what did the group billing commit?"
show kafkatool dump-log --format ndjson --print-data-log --tail 1 "$dir/__consumer_offsets-7"

say "Where does a consumer begin that asks for a moment? The search, step by step."
show kafkatool lookup --time 2026-03-01T09:02:00Z --explain "$dir/clicks-0"

say "Damage is a row in its place; the walk goes on behind it, and the exit code is 4."
show kafkatool dump-log --format table "$dir/clicks-1"

say "Is anything else wrong on this disk? Every batch and every side file is checked."
show kafkatool verify "$dir"

say "Where did the space of the disk go?"
show kafkatool ls --space "$dir"
