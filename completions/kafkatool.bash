# Completion of kafkatool for bash. Written by `kafkatool completion bash`: changes belong there.

# What a command takes: its options, and what its arguments are.
_kafkatool_command() {
    case $1 in
    'dump-log')
        arguments=(paths)
        options='--files-from -0 --null --read-as --files --format --compat --print-data-log --deep-iteration --verify-index-only --index-sanity-check --max-message-size --max-bytes --offsets-decoder --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder --share-group-state-decoder --skip-record-metadata --key-decoder-class --value-decoder-class --max-batch-size --redact --from --to --key --key-regex --header --producer-id --control --limit --tail --bytes --raw --fail-on -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'cat')
        arguments=(paths)
        options='--files-from -0 --null --read-as --format -f --template -Z --print-null --follow --decoder --from --to --key --key-regex --header --producer-id --control --limit --tail --all --high-watermark --max-batch-size --mend-bits --redact --bytes --fail-on -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache -h --help' ;;
    'export')
        arguments=(paths)
        options='--files-from -0 --null --read-as -o --output --format --from --to --key --key-regex --header --producer-id --control --limit --tail --all --high-watermark --max-batch-size --mend-bits --redact --bytes --fail-on --jobs --spark --conf -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'ls')
        arguments=(paths)
        options='--files-from -0 --null --read-as --topics --partitions --segments --files --space --state --sort --reverse --limit --format --raw -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'stats')
        arguments=(paths)
        options='--files-from -0 --null --read-as --by --deep --from --to --what-if --at --now --top --redact --format --bytes --raw --fail-on --jobs --spark --conf -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'verify')
        arguments=(paths)
        options='--files-from -0 --null --read-as --deep --sample --state --recheck-older-than --recheck-share --format --raw --fail-on --jobs --spark --conf -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'doctor')
        arguments=(paths)
        options='--files-from -0 --null --user --elsewhere --nofile --max-map-count --quick --sample --format --raw --fail-on -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'report')
        arguments=(paths)
        options='--files-from -0 --null --read-as -o --output --out --with-payloads --deep --sample --at --now --forecast --config --set --kafka-version --format --fail-on --jobs -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache -h --help' ;;
    'lookup')
        arguments=(paths)
        options='--files-from -0 --null --read-as --offset --time --explain --format --raw --fail-on -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'rebuild-index')
        arguments=(paths)
        options='--files-from -0 --null --apply --offline --backup-dir --undo --set --force --format --raw --fail-on --jobs --config -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'recover')
        arguments=(paths)
        options='--files-from -0 --null --apply --offline --backup-dir --undo --set --keep-after-damage --mend-bits --format --raw --fail-on --jobs --config -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'set-aside')
        arguments=(paths)
        options='--files-from -0 --null --apply --offline --backup-dir --undo --move-to --describe --metadata --second-copy --accept-loss --format --raw -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'retention')
        arguments=(paths)
        options='--files-from -0 --null --apply --offline --backup-dir --undo --set --config --at --high-watermark --kafka-version --remote-offset --check-times --forecast --free --move-to --purge --format --raw --jobs --spark --conf -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'compact')
        arguments=(paths)
        options='--files-from -0 --null --apply --offline --backup-dir --undo --set --config --at --high-watermark --kafka-version --passes --until-stable --key --top --write-to --memory --format --bytes --raw --fail-on --jobs --spark --conf -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'cache-map')
        arguments=(paths)
        options='--files-from -0 --null --read-as --topics --partitions --segments --files --pages --pid --lag --groups --watch --interval --rounds --warm --evict --from --to --last --apply --limit --format --width --raw -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache -h --help' ;;
    'sql')
        arguments=(anything paths)
        options='--files-from -0 --null --all -o --output --unsafe-sql --spark --conf --format --bytes --raw -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'pipeline run')
        arguments=(paths)
        options='--files-from -0 --null -o --output --out --recheck-older-than --recheck-share --deep --at --now --config --set --kafka-version --keep --spark --conf --format --raw --fail-on -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'pipeline collect')
        arguments=(paths)
        options='--files-from -0 --null -o --output --recheck-older-than --recheck-share --deep --at --now --config --set --kafka-version --keep --format --raw --fail-on --jobs -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'pipeline report')
        arguments=(files files)
        options='--format --raw --fail-on -q --quiet -v --verbose --no-progress --debug --csv-safe -h --help' ;;
    'bench append')
        arguments=(files)
        options='--num-records --record-size --batch-size --key-size --num-keys --key-distribution --compressible --payload-file --codec --throughput --reporting-interval --pre-encoded --batches-per-append --partitions --writers --segment-size --index-interval --flush-messages --flush-ms --preallocate --limits --no-limits --format -q --quiet -v --verbose --no-progress --debug -o --output --out --keep --on-live-volume --raw --csv-safe -h --help' ;;
    'bench read')
        arguments=(files)
        options='--size --rounds --format -q --quiet -v --verbose --no-progress --debug -o --output --out --keep --on-live-volume --raw --csv-safe -h --help' ;;
    'bench lookup')
        arguments=(files)
        options='--days --rate --segment-size --lookups --format -q --quiet -v --verbose --no-progress --debug -o --output --out --keep --on-live-volume --raw --csv-safe -h --help' ;;
    'bench compare')
        arguments=(files files)
        options='--changed --format --raw -q --quiet -v --verbose --no-progress --debug --csv-safe -h --help' ;;
    'serve')
        arguments=(paths)
        options='--files-from -0 --null --include --rename --high-watermark --last-stable-offset --skip-damage --mend-bits --verify --follow --listen --advertise --insecure --tls-cert --tls-key --tls-client-ca --users --cluster-id --offsets-file --metrics --no-sendfile --max-connections --max-connections-per-address --max-request --max-memory --idle-timeout --list --format --raw -q --quiet -v --verbose --no-progress --debug --max-rate --max-errors --cache --csv-safe -h --help' ;;
    'completion')
        arguments=('words:bash zsh fish')
        options='-q --quiet -v --verbose --no-progress --debug -h --help' ;;
    *) return 1 ;;
    esac
}

# What comes behind an option of a command.
_kafkatool_value() {
    case "$1 $2" in
    *' --advertise') takes=anything ;;
    *' --at') takes=anything ;;
    *' --backup-dir') takes=files ;;
    *' --batch-size') takes=anything ;;
    *' --batches-per-append') takes=anything ;;
    *' --by') takes=words words='file partition topic' ;;
    *' --bytes') takes=words words='utf8 hex base64' ;;
    *' --cache') takes=words words='keep' ;;
    *' --cluster-id') takes=anything ;;
    *' --codec') takes=words words='none gzip snappy lz4 zstd' ;;
    *' --compat') takes=words words='3.9 4.0 4.1 4.2 4.3' ;;
    *' --compressible') takes=anything ;;
    *' --conf') takes=anything ;;
    *' --config') takes=files ;;
    *' --control') takes=words words='only none' ;;
    *' --days') takes=anything ;;
    *' --decoder') takes=anything ;;
    *' --describe') takes=files ;;
    *' --fail-on') takes=words words='note degraded no_start loss' ;;
    'dump-log --files') takes=anything ;;
    *' --files-from') takes=files ;;
    *' --flush-messages') takes=anything ;;
    *' --flush-ms') takes=anything ;;
    *' --forecast') takes=anything ;;
    'dump-log --format') takes=words words='kafka table ndjson csv' ;;
    'cat --format') takes=words words='payload ndjson' ;;
    'export --format') takes=words words='parquet arrow csv ndjson' ;;
    'report --format') takes=words words='html ndjson' ;;
    'cache-map --format') takes=words words='table ndjson svg html' ;;
    'sql --format') takes=words words='table ndjson csv parquet' ;;
    *' --format') takes=words words='table ndjson csv' ;;
    *' --free') takes=anything ;;
    *' --from') takes=anything ;;
    *' --header') takes=anything ;;
    *' --high-watermark') takes=words words='checkpoint end' ;;
    *' --idle-timeout') takes=anything ;;
    *' --include') takes=words words='deleted stray future internal' ;;
    *' --index-interval') takes=anything ;;
    *' --interval') takes=anything ;;
    *' --jobs') takes=anything ;;
    *' --kafka-version') takes=words words='3.9 4.0 4.1 4.2 4.3' ;;
    'pipeline run --keep') takes=anything ;;
    'pipeline collect --keep') takes=anything ;;
    *' --keep-after-damage') takes=files ;;
    *' --key') takes=anything ;;
    *' --key-decoder-class') takes=anything ;;
    *' --key-distribution') takes=words words='uniform zipf sequential' ;;
    *' --key-regex') takes=anything ;;
    *' --key-size') takes=anything ;;
    *' --lag') takes=anything ;;
    *' --last') takes=anything ;;
    *' --last-stable-offset') takes=words words='log end' ;;
    *' --limit') takes=anything ;;
    *' --listen') takes=anything ;;
    *' --lookups') takes=anything ;;
    *' --max-batch-size') takes=anything ;;
    *' --max-bytes') takes=anything ;;
    *' --max-connections') takes=anything ;;
    *' --max-connections-per-address') takes=anything ;;
    *' --max-errors') takes=anything ;;
    *' --max-map-count') takes=anything ;;
    *' --max-memory') takes=anything ;;
    *' --max-message-size') takes=anything ;;
    *' --max-rate') takes=anything ;;
    *' --max-request') takes=anything ;;
    *' --memory') takes=anything ;;
    *' --metadata') takes=files ;;
    *' --metrics') takes=anything ;;
    *' --move-to') takes=files ;;
    *' --nofile') takes=anything ;;
    *' --now') takes=anything ;;
    *' --num-keys') takes=anything ;;
    *' --num-records') takes=anything ;;
    *' --offset') takes=anything ;;
    *' --offsets-file') takes=files ;;
    *' --out') takes=files ;;
    *' --output') takes=files ;;
    'bench append --partitions') takes=anything ;;
    *' --passes') takes=anything ;;
    *' --payload-file') takes=files ;;
    *' --pid') takes=anything ;;
    *' --producer-id') takes=anything ;;
    *' --rate') takes=anything ;;
    *' --read-as') takes=words words='log index timeindex txnindex snapshot checkpoint' ;;
    *' --recheck-older-than') takes=anything ;;
    *' --recheck-share') takes=anything ;;
    *' --record-size') takes=anything ;;
    *' --remote-offset') takes=anything ;;
    *' --rename') takes=partitions ending='=' ;;
    *' --reporting-interval') takes=anything ;;
    *' --rounds') takes=anything ;;
    *' --sample') takes=anything ;;
    *' --second-copy') takes=files ;;
    *' --segment-size') takes=anything ;;
    *' --set') takes=words words='cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas index.interval.bytes internal.segment.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable' ending='=' ;;
    *' --size') takes=anything ;;
    *' --sort') takes=words words='name size allocated time offset' ;;
    *' --spark') takes=anything ;;
    'verify --state') takes=files ;;
    *' --state') takes=words words='active deleted stray future metadata' ;;
    *' --tail') takes=anything ;;
    *' --template') takes=anything ;;
    *' --throughput') takes=anything ;;
    *' --time') takes=anything ;;
    *' --tls-cert') takes=anything ;;
    *' --tls-client-ca') takes=anything ;;
    *' --tls-key') takes=anything ;;
    *' --to') takes=anything ;;
    *' --top') takes=anything ;;
    *' --undo') takes=files ;;
    *' --user') takes=anything ;;
    *' --users') takes=files ;;
    *' --value-decoder-class') takes=anything ;;
    *' --what-if') takes=anything ;;
    *' --width') takes=anything ;;
    *' --write-to') takes=files ;;
    *' --writers') takes=anything ;;
    *' -f') takes=anything ;;
    *' -o') takes=files ;;
    *) takes=flag ;;
    esac
}

_kafkatool_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -S "${2-}" -- "$current")
    if [[ ${2-} ]]; then compopt -o nospace; fi
}

# Files; and for a topic with several partitions all of them at once, as a pattern.
_kafkatool_paths() {
    # What is quoted, and what the shell would expand, is best left to its own completion of files.
    if [[ $current == *[\'\"\\\$\~\`]* ]]; then return; fi
    local place=${current%"${current##*/}"} partition topic
    local -A count=()
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    for partition in "$current"*/; do
        partition=${partition#"$place"}
        topic=${partition%-*}
        if [[ $partition == *-[0-9]*/ && $topic != *[!A-Za-z0-9._-]* && ${partition##*-} != *[!0-9/]* ]]; then
            count[$topic]+=x
            if [[ ${count[$topic]} == xx && "$place$topic-*" == "$current"* ]]; then
                COMPREPLY+=("$place$topic-*")
            fi
        fi
    done
}

# Directories of partitions, deleted ones too, of the log directories on this line.
_kafkatool_partitions() {
    local word partition
    local -a found=()
    for word in "${COMP_WORDS[@]:1}"; do
        for partition in "$word"/*-*/; do
            partition=${partition%/}
            partition=${partition##*/}
            if [[ $partition =~ -[0-9]+(\.[0-9a-f]+-[a-z]+)?$ ]]; then found+=("$partition"); fi
        done
    done
    local IFS=$' \t\n'
    _kafkatool_words "${found[*]}" "$1"
}

_kafkatool() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option= command= word
    local takes= words= ending= options=
    local -a arguments=()
    COMPREPLY=()
    # To bash, --format=table is three words.
    if [[ $current == = ]]; then
        option=$before current=
    elif [[ $before == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
        if [[ $option != -* ]]; then compopt +o default; return; fi
    elif [[ $before == -* ]]; then
        option=$before
    fi
    local -i number=0
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $word == -* ]]; then continue; fi
        case $command in
        '') command=$word ;;
        pipeline|bench) command+=" $word" ;;
        *) number+=1 ;;
        esac
    done
    case $command in
    '')
        _kafkatool_words 'dump-log cat export ls stats verify doctor report lookup rebuild-index recover set-aside retention compact cache-map sql pipeline bench serve completion help'
        return ;;
    'pipeline')
        _kafkatool_words 'run collect report'
        return ;;
    'bench')
        _kafkatool_words 'append read lookup compare'
        return ;;
    'help')
        _kafkatool_words 'dump-log cat export ls stats verify doctor report lookup rebuild-index recover set-aside retention compact cache-map sql pipeline bench serve completion'
        return ;;
    esac
    _kafkatool_command "$command" || return
    if [[ $option ]]; then _kafkatool_value "$command" "$option"; fi
    if [[ ! $option || $takes == flag ]]; then
        if [[ $current == -* ]]; then
            _kafkatool_words "$options"
            return
        fi
        # An option's value was counted among the arguments: only the first of all can be told apart.
        takes=${arguments[number && ${#arguments[@]} > 1]-} words=
        if [[ $takes == words:* ]]; then words=${takes#words:} takes=words; fi
    fi
    case $takes in
    words) _kafkatool_words "$words" "$ending" ;;
    paths) _kafkatool_paths ;;
    partitions) _kafkatool_partitions "$ending" ;;
    files) ;;
    *) compopt +o default ;;
    esac
}

complete -o default -F _kafkatool kafkatool
