# Records to columns.

cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    bint failed


cdef inline uint64_t read_bits(Cursor *cursor, int most) noexcept nogil:
    """Read LEB128 of at most so many bytes; bits that do not fit are dropped, as in Kafka's reader."""
    cdef uint64_t value = 0
    cdef int shift
    cdef uint8_t byte
    for shift in range(0, 7 * most, 7):
        if cursor.at >= cursor.end:
            break
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return value
    cursor.failed = True
    return 0


cdef inline int64_t read_varlong(Cursor *cursor) noexcept nogil:
    cdef uint64_t bits = read_bits(cursor, 10)
    return <int64_t>(bits >> 1) ^ -<int64_t>(bits & 1)


cdef inline int64_t read_varint(Cursor *cursor) noexcept nogil:
    cdef uint64_t bits
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        bits = cursor.at[0]
        cursor.at += 1
    else:
        bits = <uint32_t>read_bits(cursor, 5)
    return <int64_t>(bits >> 1) ^ -<int64_t>(bits & 1)


cdef inline const uint8_t *read_nullable(Cursor *cursor, int64_t *size) noexcept nogil:
    """Return where the bytes begin; a negative length means null and takes no bytes."""
    cdef const uint8_t *start
    size[0] = read_varint(cursor)
    start = cursor.at
    if size[0] < 0:
        size[0] = -1
    elif size[0] > cursor.end - cursor.at:
        cursor.failed = True
    else:
        cursor.at += size[0]
    return start


cdef struct OneRecord:
    uint8_t attributes
    int64_t offset
    int64_t timestamp
    int32_t sequence
    const uint8_t *key
    int64_t key_size
    const uint8_t *value
    int64_t value_size
    const uint8_t *headers  # after their count
    int64_t headers_count


cdef inline bint read_record(Cursor *cursor, Head *head, OneRecord *record) noexcept nogil:
    """Read the next record; return False where the bytes do not hold one."""
    cdef int64_t size = read_varint(cursor), ignored, at
    cdef int32_t delta
    cdef const uint8_t *end
    if cursor.failed or size < 1 or size > cursor.end - cursor.at:
        return False
    end = cursor.at + size
    record.attributes = cursor.at[0]
    cursor.at += 1
    record.timestamp = <int64_t>(<uint64_t>head.base_timestamp + <uint64_t>read_varlong(cursor))
    if head.attributes & APPEND_TIME:
        record.timestamp = head.max_timestamp
    delta = <int32_t>read_varint(cursor)
    record.offset = <int64_t>(<uint64_t>head.base_offset + <uint64_t><int64_t>delta)
    record.sequence = next_sequence(head.sequence, delta) if head.sequence >= 0 else -1
    record.key = read_nullable(cursor, &record.key_size)
    if cursor.failed:
        return False
    record.value = read_nullable(cursor, &record.value_size)
    if cursor.failed or cursor.at >= cursor.end:
        return False
    record.headers_count = 0
    if cursor.at[0] == 0:
        cursor.at += 1
        record.headers = cursor.at
    else:
        record.headers_count = read_varint(cursor)
        record.headers = cursor.at
        if record.headers_count < 0 or record.headers_count > cursor.end - cursor.at:
            return False
        for at in range(record.headers_count):
            read_nullable(cursor, &ignored)
            if cursor.failed or ignored < 0:
                return False
            read_nullable(cursor, &ignored)
            if cursor.failed:
                return False
    return not cursor.failed and cursor.at == end


cdef int64_t put_rows(
    const uint8_t *data, Cursor *cursor, Head *head, int64_t *cell, int64_t rows, int64_t count, int64_t batch
) noexcept nogil:
    """Read records into `count` rows from `cell` on, in a table of `rows` rows; return how many decode."""
    cdef OneRecord record
    cdef int64_t done = 0
    while done < count:
        if not read_record(cursor, head, &record):
            break
        cell[0] = record.offset
        cell[1 * rows] = record.timestamp
        cell[2 * rows] = record.sequence
        cell[3 * rows] = record.attributes
        cell[4 * rows] = record.key - data
        cell[5 * rows] = record.key_size
        cell[6 * rows] = record.value - data
        cell[7 * rows] = record.value_size
        cell[8 * rows] = record.headers - data
        cell[9 * rows] = record.headers_count
        cell[10 * rows] = batch
        cell += 1
        done += 1
    return done


def record_rows(const uint8_t[::1] window, int64_t start, int64_t end, int64_t[:, ::1] table, int64_t row, int64_t batch):
    cdef Head head
    cdef Cursor cursor
    cdef int64_t at = start, rows = table.shape[1]
    cdef const uint8_t *data = bytes_of(window)
    cdef int64_t *cell = cells_of(table, RECORD_FIELDS, row)
    end = within(window, start, end)
    with nogil:
        while plain_head(data, at, end, &head):
            if head.attributes & CODEC or head.count > rows - row:
                break
            cursor = Cursor(data + at + HEADER_SIZE, data + at + head.size, False)
            if put_rows(data, &cursor, &head, cell, rows, head.count, batch) < head.count:
                break
            if head.count and cursor.at != cursor.end:
                break
            row += head.count
            cell += head.count
            batch += 1
            at += head.size
    return at, row, batch


def arena_rows(
    const uint8_t[::1] window,
    int64_t start,
    int64_t end,
    const uint8_t[::1] arena,
    const int64_t[::1] ends,
    int64_t[:, ::1] table,
):
    cdef Head head
    cdef Cursor cursor
    cdef int64_t at = start, rows = table.shape[1], row = 0, batch = 0, body = 0
    cdef const uint8_t *data = bytes_of(window)
    cdef const uint8_t *inflated = bytes_of(arena)
    cdef int64_t *cell = cells_of(table, RECORD_FIELDS, row)
    end = within(window, start, end)
    with nogil:
        while batch < ends.shape[0] and plain_head(data, at, end, &head):
            if not body <= ends[batch] <= arena.shape[0] or head.count > rows - row:
                break
            cursor = Cursor(inflated + body, inflated + ends[batch], False)
            if put_rows(inflated, &cursor, &head, cell, rows, head.count, batch) < head.count:
                break
            if head.count and cursor.at != cursor.end:
                break
            row += head.count
            cell += head.count
            body = ends[batch]
            batch += 1
            at += head.size
    return at, row, batch


def body_rows(
    const uint8_t[::1] header,
    const uint8_t[::1] body,
    int64_t start,
    int64_t stop,
    int64_t left,
    int64_t[:, ::1] table,
    int64_t row,
    int64_t batch,
):
    cdef Head head
    cdef Cursor cursor
    cdef int64_t count, done
    cdef const uint8_t *data = bytes_of(body)
    cdef int64_t *cell = cells_of(table, RECORD_FIELDS, row)
    if header.shape[0] < HEADER_SIZE:
        raise ValueError("a header has 61 bytes")
    stop = within(body, start, stop)
    read_head(&header[0], &head)
    if stop < start or row > table.shape[1] or left < 0:
        return start, row, -1
    cursor = Cursor(data + start, data + stop, False)
    count = min(left, <int64_t>table.shape[1] - row)
    with nogil:
        done = put_rows(data, &cursor, &head, cell, table.shape[1], count, batch)
    if done < count or (count == left and left and head.count > 0 and cursor.at != cursor.end):
        return start, row, -1
    return cursor.at - data, row + count, left - count


cdef bint records_in_order(const uint8_t *data, int64_t size, Head *head) noexcept nogil:
    """Return whether the bytes hold exactly the batch's records, at rising offsets, none later than its max."""
    cdef Cursor cursor = Cursor(data, data + size, False)
    cdef OneRecord record
    cdef int64_t before = head.base_offset - 1, last = head.base_offset + head.delta, left = head.count
    if left == 0:
        return True
    while left:
        if not read_record(&cursor, head, &record):
            return False
        if not before < record.offset <= last or record.timestamp > head.max_timestamp:
            return False
        before = record.offset
        left -= 1
    return cursor.at == cursor.end


cdef bint own_records_in_order(const uint8_t *batch) noexcept nogil:
    """Return the same for an uncompressed batch."""
    cdef Head head
    read_head(batch, &head)
    return records_in_order(batch + HEADER_SIZE, head.size - HEADER_SIZE, &head)


def records_hold(const uint8_t[::1] header, const uint8_t[::1] body):
    cdef Head head
    cdef bint holds
    cdef const uint8_t *data = bytes_of(body)
    if header.shape[0] < HEADER_SIZE:
        raise ValueError("a header has 61 bytes")
    read_head(&header[0], &head)
    if head.count < 0 or head.delta < 0 or head.base_offset > MAX_INT64 - head.delta or head.base_offset < 0:
        return False
    with nogil:
        holds = records_in_order(data, body.shape[0], &head)
    return holds
