# Records from columns.

cdef inline int varint_size(uint64_t bits) noexcept nogil:
    cdef int size = 1
    while bits > 0x7F:
        bits >>= 7
        size += 1
    return size


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return <uint64_t>value << 1 ^ <uint64_t>(value >> 63)


cdef inline uint8_t *put_varint(uint8_t *at, uint64_t bits) noexcept nogil:
    while bits > 0x7F:
        at[0] = <uint8_t>(bits & 0x7F | 0x80)
        at += 1
        bits >>= 7
    at[0] = <uint8_t>bits
    return at + 1


cdef inline uint8_t *put_field(uint8_t *at, const uint8_t *source, int64_t start, int64_t size) noexcept nogil:
    at = put_varint(at, zigzag(size if size >= 0 else -1))
    if size > 0:
        memcpy(at, source + start, size)
        at += size
    return at


cdef inline int64_t row_size(int64_t time_delta, int64_t delta, int64_t key_size, int64_t value_size) noexcept nogil:
    """Return the size of a record without headers, after its length."""
    return (
        2 + varint_size(zigzag(time_delta)) + varint_size(zigzag(delta))
        + varint_size(zigzag(max(key_size, <int64_t>-1))) + max(key_size, <int64_t>0)
        + varint_size(zigzag(max(value_size, <int64_t>-1))) + max(value_size, <int64_t>0)
    )


cdef inline uint8_t *put_record(
    uint8_t *at, const uint8_t *source, int64_t size, int64_t time_delta, int64_t delta,
    int64_t key_start, int64_t key_size, int64_t value_start, int64_t value_size
) noexcept nogil:
    """Write a record without headers; `size` is its row_size."""
    at = put_varint(at, zigzag(size))
    at[0] = 0
    at = put_varint(at + 1, zigzag(time_delta))
    at = put_varint(at, zigzag(delta))
    at = put_field(at, source, key_start, key_size)
    at = put_field(at, source, value_start, value_size)
    at[0] = 0
    return at + 1


def record_bytes(const uint8_t[::1] data, const int64_t[:, ::1] rows, int64_t base_offset, int64_t base_timestamp):
    cdef int64_t count = rows.shape[1], each, total = 0, size, time_delta, delta
    cdef const uint8_t *source = bytes_of(data)
    cdef uint8_t *at
    if rows.shape[0] != 6:
        raise ValueError("offset, timestamp, start and size of key and of value")
    for each in range(2, 6, 2):
        check_fields(data, rows[each], rows[each + 1], count)
    for each in range(count):
        time_delta = <int64_t>(<uint64_t>rows[1, each] - <uint64_t>base_timestamp)
        delta = <int64_t>(<uint64_t>rows[0, each] - <uint64_t>base_offset)
        if delta != <int32_t>delta or (delta < 0) != (rows[0, each] < base_offset):
            raise ValueError(f"offset {rows[0, each]} is too far from {base_offset}")
        size = row_size(time_delta, delta, rows[3, each], rows[5, each])
        total += size + varint_size(zigzag(size))
    written = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *><char *>written
    with nogil:
        for each in range(count):
            time_delta = <int64_t>(<uint64_t>rows[1, each] - <uint64_t>base_timestamp)
            delta = rows[0, each] - base_offset
            size = row_size(time_delta, delta, rows[3, each], rows[5, each])
            at = put_record(at, source, size, time_delta, delta, rows[2, each], rows[3, each], rows[4, each], rows[5, each])
    return written
