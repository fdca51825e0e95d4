# What the log cleaner keeps. The numbers are those of verdicts.py.

cdef enum:
    KEPT = 0
    SUPERSEDED = 1
    UNKEYED = 2
    TOMBSTONE = 3
    ABORTED = 4
    MARKER = 5
    DROP = 0
    COPY = 1
    REWRITE = 2
    EMPTY = 3
    IS_CONTROL = 1
    IS_DISCARDED = 2
    IS_PAST = 4
    FLAGS = 0x38  # timestamp type, transactional, control


def judge_records(
    const int64_t[::1] offsets,
    const int64_t[::1] key_sizes,
    const int64_t[::1] value_sizes,
    const int64_t[::1] batch,
    const int64_t[::1] found,
    int64_t latest,
    const uint8_t[::1] flags,
    uint8_t[::1] fates,
    int64_t[::1] kept,
    int64_t[::1] tombstones,
):
    cdef int64_t count = offsets.shape[0], batches = flags.shape[0], row
    cdef uint8_t about, fate
    if not (key_sizes.shape[0] == value_sizes.shape[0] == batch.shape[0] == found.shape[0] == fates.shape[0] == count):
        raise ValueError("columns of one length")
    if not (kept.shape[0] == tombstones.shape[0] == batches):
        raise ValueError("as many counts as batches")
    for row in range(count):
        if not 0 <= batch[row] < batches:
            raise ValueError(f"there is no batch {batch[row]}")
    kept[:] = 0
    tombstones[:] = 0
    with nogil:
        for row in range(count):
            about, fate = flags[batch[row]], KEPT
            if about & IS_DISCARDED:
                fate = MARKER if about & IS_CONTROL else ABORTED
            elif offsets[row] <= latest and not about & IS_CONTROL:
                if key_sizes[row] < 0:
                    fate = UNKEYED
                elif offsets[row] < found[row]:
                    fate = SUPERSEDED
                elif value_sizes[row] < 0 and about & IS_PAST:
                    fate = TOMBSTONE
            fates[row] = fate
            if fate == KEPT:
                kept[batch[row]] += 1
                if value_sizes[row] < 0:
                    tombstones[batch[row]] += 1


cdef struct Kept:
    int64_t first  # row of the first record that stays, and the row after the batch's last one
    int64_t end
    int64_t count
    int64_t latest


cdef inline void write_be(uint8_t *at, uint64_t value, int size) noexcept nogil:
    while size:
        size -= 1
        at[size] = <uint8_t>value
        value >>= 8


cdef void finish_batch(uint8_t *batch, int64_t size) noexcept nogil:
    """Write the length and the checksum."""
    write_be(batch + 8, <uint64_t>(size - LOG_OVERHEAD), 4)
    write_be(batch + 17, crc32c_of(batch + CRC_START, <size_t>(size - CRC_START), 0), 4)


cdef int put_emptied(Text *text, const uint8_t *old, Head *head) except -1 nogil:
    cdef uint8_t *batch
    reserve(text, HEADER_SIZE)
    batch = <uint8_t *>text.data + text.used
    put(text, <const char *>old, HEADER_SIZE)
    write_be(batch + 21, <uint64_t>(head.attributes & FLAGS), 2)
    write_be(batch + 27, <uint64_t>-1, 8)
    write_be(batch + 57, 0, 4)
    finish_batch(batch, HEADER_SIZE)
    return 0


@final
cdef class _KeptRecords:
    """Columns of records, and which of them stay."""

    cdef const int64_t[::1] batch, offset, timestamp, key_start, key_size, value_start, value_size, headers_count
    cdef const uint8_t[::1] fates
    cdef int64_t count

    def __init__(self, const uint8_t[::1] data, records, const uint8_t[::1] fates):
        self.batch, self.offset, self.timestamp = records[0], records[1], records[2]
        self.key_start, self.key_size, self.value_start, self.value_size, self.headers_count = records[3:]
        self.fates, self.count = fates, fates.shape[0]
        for column in records:
            if len(column) != self.count:
                raise ValueError("columns of one length")
        check_fields(data, self.key_start, self.key_size, self.count)
        check_fields(data, self.value_start, self.value_size, self.count)

    cdef Kept of_batch(self, int64_t number, int64_t row) noexcept nogil:
        """Return those of a batch whose records begin at `row`."""
        cdef Kept kept = Kept(-1, row, 0, -1)
        while kept.end < self.count and self.batch[kept.end] == number:
            if self.fates[kept.end] == KEPT:
                if kept.first < 0:
                    kept.first = kept.end
                kept.count += 1
                kept.latest = max(kept.latest, self.timestamp[kept.end])
            kept.end += 1
        return kept

    cdef bint can_write(self, Kept *kept, Head *head) noexcept nogil:
        """Return whether a broker could write it, and these records need no more care."""
        cdef int64_t row, before = head.base_offset - 1
        if head.attributes & CODEC or kept.count == 0:
            return False
        if head.producer_id == -1 and head.attributes & TRANSACTIONAL:
            return False
        if head.producer_id != -1 and (head.producer_epoch == -1 or (head.sequence < 0 and not head.attributes & CONTROL)):
            return False
        for row in range(kept.first, kept.end):
            if self.fates[row] != KEPT:
                continue
            if self.headers_count[row] or self.timestamp[row] < -1:
                return False
            if not before < self.offset[row] <= head.base_offset + MAX_INT32:
                return False
            before = self.offset[row]
        return True

    cdef int put_rewritten(self, Text *text, const uint8_t *data, const uint8_t *old, Head *head, Kept *kept, int64_t base) except -1 nogil:
        """Write the batch with the records that stay, times relative to `base`; the caller finishes the header."""
        cdef int64_t row, size, time_delta, delta
        cdef uint8_t *at
        cdef size_t start = text.used
        reserve(text, HEADER_SIZE)
        put(text, <const char *>old, HEADER_SIZE)
        for row in range(kept.first, kept.end):
            if self.fates[row] != KEPT:
                continue
            time_delta = <int64_t>(<uint64_t>self.timestamp[row] - <uint64_t>base)
            delta = self.offset[row] - head.base_offset
            size = row_size(time_delta, delta, self.key_size[row], self.value_size[row])
            reserve(text, size + 10)
            at = <uint8_t *>text.data + text.used
            at = put_record(at, data, size, time_delta, delta, self.key_start[row], self.key_size[row], self.value_start[row], self.value_size[row])
            text.used = at - <uint8_t *>text.data
        at = <uint8_t *>text.data + start
        write_be(at + 27, <uint64_t>base, 8)
        write_be(at + 57, <uint64_t>kept.count, 4)
        return 0


def kept_batches(
    const uint8_t[::1] window,
    const int64_t[::1] starts,
    const uint8_t[::1] outcomes,
    const uint8_t[::1] new_horizons,
    int64_t horizon_ms,
    records,
    const uint8_t[::1] fates,
    int64_t[::1] sizes,
    int64_t[::1] times,
):
    cdef Head head
    cdef Kept kept
    cdef Text text = Text(NULL, 0, 0)
    cdef const uint8_t *data = bytes_of(window)
    cdef const uint8_t *old
    cdef int64_t count = starts.shape[0], each, row = 0
    cdef size_t start
    cdef bint is_done = True
    cdef _KeptRecords rows = _KeptRecords(window, records, fates)
    if not (outcomes.shape[0] == new_horizons.shape[0] == sizes.shape[0] == times.shape[0] == count):
        raise ValueError("as many outcomes as batches")
    check_batches(window, starts)
    try:
        with nogil:
            for each in range(count):
                old = data + starts[each]
                read_head(old, &head)
                kept = rows.of_batch(each, row)
                row, start = kept.end, text.used
                times[each] = head.max_timestamp
                if outcomes[each] == COPY:
                    reserve(&text, head.size)
                    put(&text, <const char *>old, head.size)
                elif outcomes[each] == EMPTY:
                    put_emptied(&text, old, &head)
                elif outcomes[each] == REWRITE:
                    if not rows.can_write(&kept, &head):
                        is_done = False
                        break
                    times[each] = put_kept(&text, rows, data, old, &head, &kept, new_horizons[each], horizon_ms)
                sizes[each] = text.used - start
        return PyBytes_FromStringAndSize(text.data, text.used) if is_done else None
    finally:
        free(text.data)


cdef int64_t put_kept(
    Text *text, _KeptRecords rows, const uint8_t *data, const uint8_t *old, Head *head, Kept *kept, bint is_new, int64_t horizon_ms
) except? -2 nogil:
    """Rewrite a batch; return its latest time."""
    cdef size_t start = text.used
    cdef int64_t base = rows.timestamp[kept.first], latest = kept.latest
    cdef int attributes = head.attributes & FLAGS
    cdef uint8_t *batch
    if is_new or head.attributes & HORIZON:
        attributes |= HORIZON
        base = horizon_ms if is_new else head.base_timestamp
    if head.attributes & APPEND_TIME:
        latest = head.max_timestamp
    rows.put_rewritten(text, data, old, head, kept, base)
    batch = <uint8_t *>text.data + start
    write_be(batch + 21, <uint64_t>attributes, 2)
    write_be(batch + 35, <uint64_t>latest, 8)
    finish_batch(batch, text.used - start)
    return latest


cdef int check_batches(const uint8_t[::1] window, const int64_t[::1] starts) except -1:
    """Check that a whole batch begins at every start."""
    cdef int64_t each
    cdef Head head
    for each in range(starts.shape[0]):
        if not 0 <= starts[each] <= window.shape[0] - HEADER_SIZE:
            raise ValueError(f"no batch at {starts[each]}")
        read_head(&window[starts[each]], &head)
        if not HEADER_SIZE <= head.size <= window.shape[0] - starts[each]:
            raise ValueError(f"no whole batch at {starts[each]}")
        if not 0 <= head.base_offset <= MAX_INT64 - MAX_INT32:
            raise ValueError(f"no whole batch at {starts[each]}")
    return 0
