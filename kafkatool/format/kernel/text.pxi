# Numbers and batch headers as the text of kafka-dump-log.

cdef struct Text:
    char *data
    size_t used
    size_t room


cdef int reserve(Text *text, size_t more) except -1 nogil:
    cdef size_t room
    cdef char *grown
    if text.room - text.used >= more:
        return 0
    room = (text.used + more) * 2
    grown = <char *>realloc(text.data, room)
    if grown == NULL:
        with gil:
            raise MemoryError
    text.data = grown
    text.room = room
    return 0


cdef inline void put(Text *text, const char *what, size_t size) noexcept nogil:
    """Append text; the caller has reserved room."""
    memcpy(text.data + text.used, what, size)
    text.used += size


cdef inline void put_number(Text *text, int64_t value) noexcept nogil:
    cdef char digits[20]
    cdef int at = 20
    cdef uint64_t left = <uint64_t>value
    if value < 0:
        text.data[text.used] = c'-'
        text.used += 1
        left = <uint64_t>0 - left
    while True:
        at -= 1
        digits[at] = <char>(c'0' + left % 10)
        left //= 10
        if left == 0:
            break
    put(text, digits + at, 20 - at)


cdef inline int32_t last_sequence(int32_t sequence, int64_t delta) noexcept nogil:
    """Add to a sequence number, wrapping around as Java's int arithmetic does."""
    if sequence == -1:
        return -1
    return next_sequence(sequence, <int32_t>delta)


cdef inline int32_t next_sequence(int32_t sequence, int32_t increment) noexcept nogil:
    cdef int32_t room = <int32_t>(<uint32_t>MAX_INT32 - <uint32_t>increment)
    if sequence > room:
        return <int32_t>(<uint32_t>increment - (<uint32_t>MAX_INT32 - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>increment)


cdef const char **CODECS = [
    b" compresscodec: none crc: ", b" compresscodec: gzip crc: ", b" compresscodec: snappy crc: ",
    b" compresscodec: lz4 crc: ", b" compresscodec: zstd crc: ", b" compresscodec: unknown(5) crc: ",
    b" compresscodec: unknown(6) crc: ", b" compresscodec: unknown(7) crc: ",
]
cdef size_t[8] CODEC_SIZES
for _codec in range(8):
    CODEC_SIZES[_codec] = len(<bytes>CODECS[_codec])

cdef enum:
    BATCH_LINE = 640  # its words and thirteen numbers are never longer


cdef inline int batch_line(Text *text, Head *head, int64_t position) except -1 nogil:
    reserve(text, BATCH_LINE)
    put(text, b"baseOffset: ", 12)
    put_number(text, head.base_offset)
    put(text, b" lastOffset: ", 13)
    put_number(text, head.base_offset + head.delta)
    put(text, b" count: ", 8)
    put_number(text, head.count)
    put(text, b" baseSequence: ", 15)
    put_number(text, head.sequence)
    put(text, b" lastSequence: ", 15)
    put_number(text, last_sequence(head.sequence, head.delta))
    put(text, b" producerId: ", 13)
    put_number(text, head.producer_id)
    put(text, b" producerEpoch: ", 16)
    put_number(text, head.producer_epoch)
    put(text, b" partitionLeaderEpoch: ", 23)
    put_number(text, head.leader_epoch)
    if head.attributes & TRANSACTIONAL:
        put(text, b" isTransactional: true", 22)
    else:
        put(text, b" isTransactional: false", 23)
    if head.attributes & CONTROL:
        put(text, b" isControl: true", 16)
    else:
        put(text, b" isControl: false", 17)
    if head.attributes & HORIZON:
        put(text, b" deleteHorizonMs: OptionalLong[", 31)
        put_number(text, head.base_timestamp)
        put(text, b"] position: ", 12)
    else:
        put(text, b" deleteHorizonMs: OptionalLong.empty position: ", 47)
    put_number(text, position)
    if head.attributes & APPEND_TIME:
        put(text, b" LogAppendTime: ", 16)
    else:
        put(text, b" CreateTime: ", 13)
    put_number(text, head.max_timestamp)
    put(text, b" size: ", 7)
    put_number(text, head.size)
    put(text, b" magic: 2", 9)
    put(text, CODECS[head.attributes & CODEC], CODEC_SIZES[head.attributes & CODEC])
    put_number(text, head.crc)
    put(text, b" isvalid: true\n", 15)
    return 0


def batch_lines(const uint8_t[::1] window, int64_t start, int64_t end, int64_t position):
    cdef Head head
    cdef Text text = Text(NULL, 0, 0)
    cdef int64_t at = start
    cdef const uint8_t *data = bytes_of(window)
    end = within(window, start, end)
    try:
        with nogil:
            while plain_head(data, at, end, &head):
                batch_line(&text, &head, position + at - start)
                at += head.size
        return PyBytes_FromStringAndSize(text.data, text.used)
    finally:
        free(text.data)
