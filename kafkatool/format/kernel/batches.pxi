# Batch headers, and runs of good batches.

cdef struct Head:
    int64_t base_offset
    int64_t size
    int32_t leader_epoch
    int8_t magic
    uint32_t crc
    int16_t attributes
    int32_t delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t sequence
    int32_t count


cdef inline uint32_t be32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t be64(const uint8_t *at) noexcept nogil:
    return <int64_t>(<uint64_t>be32(at) << 32 | be32(at + 4))


cdef inline int16_t be16(const uint8_t *at) noexcept nogil:
    return <int16_t>(<uint32_t>at[0] << 8 | at[1])


cdef inline void read_head(const uint8_t *at, Head *head) noexcept nogil:
    head.base_offset = be64(at)
    head.size = <int64_t><int32_t>be32(at + 8) + LOG_OVERHEAD
    head.leader_epoch = <int32_t>be32(at + 12)
    head.magic = <int8_t>at[16]
    head.crc = be32(at + 17)
    head.attributes = be16(at + 21)
    head.delta = <int32_t>be32(at + 23)
    head.base_timestamp = be64(at + 27)
    head.max_timestamp = be64(at + 35)
    head.producer_id = be64(at + 43)
    head.producer_epoch = be16(at + 51)
    head.sequence = <int32_t>be32(at + 53)
    head.count = <int32_t>be32(at + 57)


cdef inline bint is_plain(Head *head, int64_t room) noexcept nogil:
    return (
        head.magic == 2
        and HEADER_SIZE <= head.size <= room
        and head.delta >= 0
        and head.count >= 0
        and head.base_offset <= MAX_INT64 - head.delta
    )


cdef inline bint crc_holds(const uint8_t *batch, Head *head) noexcept nogil:
    return crc32c_of(batch + CRC_START, <size_t>(head.size - CRC_START), 0) == head.crc


cdef inline bint plain_head(const uint8_t *data, int64_t at, int64_t stop, Head *head) noexcept nogil:
    """Return whether a plain batch begins at `at`."""
    if stop - at < HEADER_SIZE:
        return False
    read_head(data + at, head)
    return is_plain(head, stop - at)


cdef inline bint good_head(const uint8_t *data, int64_t at, int64_t stop, int64_t floor, Head *head) noexcept nogil:
    """Return whether a good batch above offset `floor` begins at `at`."""
    return (
        plain_head(data, at, stop, head)
        and head.base_offset > floor
        and crc_holds(data + at, head)
    )


cdef int64_t within(const uint8_t[::1] window, int64_t start, int64_t stop) except? -1:
    """Return `stop`, limited to the window; raise if the stretch begins outside it."""
    if start < 0 or start > window.shape[0]:
        raise ValueError(f"{start} is outside a window of {window.shape[0]} bytes")
    return min(max(stop, -1), <int64_t>window.shape[0])  # subtracting from it must not overflow


cdef inline const uint8_t *bytes_of(const uint8_t[::1] window) noexcept:
    return &window[0] if window.shape[0] else NULL


def good_run(const uint8_t[::1] window, int64_t start, int64_t stop, int64_t floor):
    cdef Head head
    cdef int64_t at = start, count = 0
    cdef const uint8_t *data = bytes_of(window)
    stop = within(window, start, stop)
    with nogil:
        while good_head(data, at, stop, floor, &head):
            floor = head.base_offset + head.delta
            at += head.size
            count += 1
    return at, count, floor


def batch_rows(const uint8_t[::1] window, int64_t start, int64_t end, int64_t position, int64_t[:, ::1] table, int64_t row):
    cdef Head head
    cdef int64_t at = start, rows = table.shape[1]
    cdef const uint8_t *data = bytes_of(window)
    cdef int64_t *cell = cells_of(table, BATCH_FIELDS, row)
    end = within(window, start, end)
    with nogil:
        while end - at >= HEADER_SIZE and row < rows:
            read_head(data + at, &head)
            if not HEADER_SIZE <= head.size <= end - at:
                break
            cell[0] = position + at - start
            cell[1 * rows] = head.base_offset
            cell[2 * rows] = head.size
            cell[3 * rows] = head.leader_epoch
            cell[4 * rows] = head.magic
            cell[5 * rows] = head.crc
            cell[6 * rows] = head.attributes
            cell[7 * rows] = head.delta
            cell[8 * rows] = head.base_timestamp
            cell[9 * rows] = head.max_timestamp
            cell[10 * rows] = head.producer_id
            cell[11 * rows] = head.producer_epoch
            cell[12 * rows] = head.sequence
            cell[13 * rows] = head.count
            at += head.size
            row += 1
            cell += 1
    return at, row


cdef enum:
    BATCH_FIELDS = 14
    RECORD_FIELDS = 11


cdef int64_t *cells_of(int64_t[:, ::1] table, int64_t fields, int64_t row) except? NULL:
    """Return the first cell of a row: bounds are checked here once, not at each of millions of cells.

    Columns are as many cells apart as the table has rows; callers stop at the last row.
    """
    if table.shape[0] < fields or row < 0:
        raise ValueError(f"a table of {fields} columns, and a row of it")
    return &table[0, row] if row < table.shape[1] else NULL
