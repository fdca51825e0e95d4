# Whole batches from columns, as they are appended.

cdef inline void put_be64(uint8_t *at, uint64_t value) noexcept nogil:
    cdef int each
    for each in range(8):
        at[each] = <uint8_t>(value >> (56 - 8 * each))


cdef inline void put_be32(uint8_t *at, uint32_t value) noexcept nogil:
    cdef int each
    for each in range(4):
        at[each] = <uint8_t>(value >> (24 - 8 * each))


cdef inline void put_plain_head(
    uint8_t *at, int64_t base_offset, int64_t size, int32_t leader_epoch, int32_t count, int64_t first, int64_t latest
) noexcept nogil:
    """Write the header, checksum included, of an uncompressed batch of `size` bytes without a producer."""
    put_be64(at, <uint64_t>base_offset)
    put_be32(at + 8, <uint32_t>(size - LOG_OVERHEAD))
    put_be32(at + 12, <uint32_t>leader_epoch)
    at[16] = 2
    at[21] = 0
    at[22] = 0
    put_be32(at + 23, <uint32_t>(count - 1))
    put_be64(at + 27, <uint64_t>first)
    put_be64(at + 35, <uint64_t>latest)
    put_be64(at + 43, <uint64_t>-1)
    at[51] = 0xFF
    at[52] = 0xFF
    put_be32(at + 53, <uint32_t>-1)
    put_be32(at + 57, <uint32_t>count)
    put_be32(at + 17, crc32c_of(at + CRC_START, <size_t>(size - CRC_START), 0))


def encode_batches(
    const uint8_t[::1] data, const int64_t[:, ::1] rows, const int64_t[::1] ends, int64_t base_offset, int32_t leader_epoch
):
    cdef int64_t count = rows.shape[0], batch, each, start = 0, total = 0, size, row, first, latest
    cdef const uint8_t *source = bytes_of(data)
    cdef uint8_t *head
    cdef uint8_t *at
    if rows.shape[1] != 5:
        raise ValueError("timestamp, start and size of key and of value")
    if base_offset < 0 or base_offset > MAX_INT64 - count:
        raise ValueError(f"{count} offsets from {base_offset} on do not exist")
    for each in range(count):
        for row in range(1, 5, 2):
            if rows[each, row + 1] >= 0 and not 0 <= rows[each, row] <= data.shape[0] - rows[each, row + 1]:
                raise ValueError(f"{rows[each, row]} is outside {data.shape[0]} bytes")
    for batch in range(ends.shape[0]):
        if not start < ends[batch] <= count or ends[batch] - start > MAX_INT32:
            raise ValueError(f"a batch of rows {start} to {ends[batch]}")
        size = HEADER_SIZE
        for each in range(start, ends[batch]):
            row = row_size(<int64_t>(<uint64_t>rows[each, 0] - <uint64_t>rows[start, 0]), each - start, rows[each, 2], rows[each, 4])
            size += row + varint_size(zigzag(row))
            if size > MAX_INT32:
                raise ValueError("a batch is larger than its length can tell")
        total += size
        start = ends[batch]
    written = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *><char *>written
    start = 0
    with nogil:
        for batch in range(ends.shape[0]):
            head, first = at, rows[start, 0]
            latest = first
            at += HEADER_SIZE
            for each in range(start, ends[batch]):
                latest = max(latest, rows[each, 0])
                size = <int64_t>(<uint64_t>rows[each, 0] - <uint64_t>first)
                row = row_size(size, each - start, rows[each, 2], rows[each, 4])
                at = put_record(at, source, row, size, each - start, rows[each, 1], rows[each, 2], rows[each, 3], rows[each, 4])
            put_plain_head(head, base_offset + start, at - head, leader_epoch, <int32_t>(ends[batch] - start), first, latest)
            start = ends[batch]
    return written
