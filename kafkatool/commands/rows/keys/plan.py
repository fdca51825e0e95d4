"""Rows of what makes plans: `rebuild-index`, `recover`, and others with `--apply`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import FILE, TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "step": RowKind(
        "rebuild-index",
        "One change of one file, planned or, with --apply, made. Damage in a log is told as in dump-log.",
        {
            **TOPIC,
            **FILE,
            "action": "write, remove, rename, purge, rmdir; undo or remove with --undo",
            "target": "the new name, for rename, or for what is removed to a place of its own",
            "why": "the reason, in words",
            "size_before": "bytes of the file as it is; null where there is none",
            "size_after": "bytes of what is written; null for remove and rename",
            "entries": "entries of the index, or producers of the snapshot, that is written",
            "only_there": "entries of the old file that the log does not bear out",
            "only_here": "entries that the old file lacks",
        },
    ),
    "recovery": RowKind(
        "recover",
        "One thing that a broker would do at start-up after an unclean shutdown.",
        {
            "directory": "the partition's directory, or the log directory",
            **TOPIC,
            "segment": "base offset of the segment; null where it is about none",
            "what": "leftover (a file that was left behind is resolved), scan, cut, trim (of zeros that "
            "were reserved, or never written), delete, rebuild, split; unreadable (a batch of unknown magic, "
            "which brokers keep and no consumer reads), misnamed (a log that no broker opens by this name); "
            "refuse (the broker does not start), offline (it leaves the log directory out), stray (it sets "
            "the partition aside), promote (a -future copy takes its place), empty (such a copy loses all); "
            "salvage and unprovable with --keep-after-damage; mend (a flipped bit is flipped back, so that "
            "nothing is lost) with --mend-bits",
            "position": "byte where the log is cut, or the unreadable or mended batch; for a scan its size",
            "first_offset": "first offset at stake, or of the batch that is mended",
            "last_offset": "last offset of a good batch that is lost, or of the batch that is mended; null "
            "where there is none",
            "message": "the same in a sentence",
            "replicas": "nodes that hold the partition, by the newest metadata on the disk; null if unknown",
            "isr": "those of them that were in sync",
            "leader": "the leader; -1 for none",
            "metadata_ms": "when that was written into the metadata",
        },
    ),
    "plan": RowKind(
        "rebuild-index",
        "All steps for one log directory. Comes behind them.",
        {
            "command": "the command whose plan it is",
            "log_dir": "the log directory",
            "steps": "number of steps",
            "bytes_needed": "bytes that are written beside the old files",
            "bytes_free": "bytes that are free on that volume",
            "is_applied": "whether it was done",
            "journal": "path of the journal for --undo; null where nothing was done",
        },
    ),
}
