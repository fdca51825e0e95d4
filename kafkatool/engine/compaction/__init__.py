"""Clean a compacted partition as the log cleaner of a broker would, as a plan.

    log = open_cleanable(directory, log_start=0, high_watermark=None, now_ms=now)      cleanable_log.py
    dirty = dirty_range(log, checkpoint, config, now)                                  dirty_range.py
    cleaned = clean(log, dirty, how, output)                                           cleaner.py
    log = replaced(log, cleaned)                                                       for the next pass

A pass maps the keys of the dirty range to their last offsets (offset_map.py), groups neighbouring segments
(grouping.py), decides for every batch and record whether it stays (record_filter.py, transactions.py), and
writes those that do (rewriting.py, cleaned_segment.py).
"""
