# Records as the text of kafka-dump-log.

cdef bint is_utf8(const uint8_t *at, int64_t size) noexcept nogil:
    """Return whether both Java and Python decode these bytes without loss."""
    cdef const uint8_t *end = at + size
    cdef uint64_t word
    cdef uint8_t lead
    cdef int more, each
    while at < end:
        if end - at >= 8:
            memcpy(&word, at, 8)
            if word & <uint64_t>0x8080808080808080 == 0:
                at += 8
                continue
        lead = at[0]
        if lead < 0x80:
            at += 1
            continue
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
        elif 0xF0 <= lead <= 0xF4:
            more = 3
        else:
            return False
        if end - at <= more:
            return False
        for each in range(1, more + 1):
            if at[each] & 0xC0 != 0x80:
                return False
        if lead == 0xE0 and at[1] < 0xA0 or lead == 0xED and at[1] > 0x9F:
            return False
        if lead == 0xF0 and at[1] < 0x90 or lead == 0xF4 and at[1] > 0x8F:
            return False
        at += more + 1
    return True


cdef enum:
    MOST_LINES = 1 << 17
    RECORD_LINE = 240  # its words and six numbers are never longer


cdef int header_keys(Text *text, OneRecord *record, const uint8_t *end) except -1 nogil:
    """Return 1 if all are UTF-8, else 0. The headers were walked before, so they are valid."""
    cdef Cursor cursor = Cursor(record.headers, end, False)
    cdef int64_t size, each
    cdef const uint8_t *key
    for each in range(record.headers_count):
        key = read_nullable(&cursor, &size)
        if cursor.failed or not is_utf8(key, size):
            return 0
        reserve(text, size + 1)
        if each:
            put(text, b",", 1)
        put(text, <const char *>key, size)
        read_nullable(&cursor, &size)
    return 1


cdef int field(Text *text, const char *name, size_t name_size, const uint8_t *at, int64_t size) except -1 nogil:
    if size < 0:
        return 1
    if not is_utf8(at, size):
        return 0
    reserve(text, name_size + size)
    put(text, name, name_size)
    put(text, <const char *>at, size)
    return 1


cdef int record_line(Text *text, Head *head, OneRecord *record, const uint8_t *end, bint with_data) except -1 nogil:
    """Return 1, or 0 if some text is not UTF-8 and needs more care."""
    reserve(text, RECORD_LINE)
    put(text, b"| offset: ", 10)
    put_number(text, record.offset)
    if head.attributes & APPEND_TIME:
        put(text, b" LogAppendTime: ", 16)
    else:
        put(text, b" CreateTime: ", 13)
    put_number(text, record.timestamp)
    put(text, b" keySize: ", 10)
    put_number(text, record.key_size)
    put(text, b" valueSize: ", 12)
    put_number(text, record.value_size)
    put(text, b" sequence: ", 11)
    put_number(text, record.sequence)
    put(text, b" headerKeys: [", 14)
    if record.headers_count and not header_keys(text, record, end):
        return 0
    reserve(text, 2)
    put(text, b"]", 1)
    if with_data:
        if not field(text, b" key: ", 6, record.key, record.key_size):
            return 0
        if not field(text, b" payload: ", 10, record.value, record.value_size):
            return 0
    reserve(text, 1)
    put(text, b"\n", 1)
    return 1


cdef int records_text(
    Text *text, const uint8_t *body, int64_t size, Head *head, int64_t *last, bint with_data, list gaps
) except -1:
    """Return 1, or 0 if the batch needs the reference; then text and gaps have nothing of it."""
    cdef Cursor cursor = Cursor(body, body + size, False)
    cdef OneRecord record
    cdef size_t mark = text.used
    cdef Py_ssize_t known = len(gaps)
    cdef int64_t before = last[0], left = head.count
    cdef bint holds = True
    while left and holds:
        holds = read_record(&cursor, head, &record) and record_line(text, head, &record, cursor.end, with_data)
        if holds:
            if record.offset != <int64_t>(<uint64_t>before + 1):
                gaps.append((before, record.offset))
            before = record.offset
            left -= 1
    if not holds or head.count and cursor.at != cursor.end:
        text.used = mark
        del gaps[known:]
        return 0
    last[0] = before
    return 1


def deep_lines(const uint8_t[::1] window, int64_t start, int64_t end, int64_t position, int64_t last, bint with_data, const uint8_t[::1] body=None):
    cdef Head head
    cdef Text text = Text(NULL, 0, 0)
    cdef list gaps = []
    cdef int64_t at = start
    cdef size_t mark
    cdef const uint8_t *data = bytes_of(window)
    cdef const uint8_t *records
    cdef int64_t size
    end = within(window, start, end)
    try:
        while plain_head(data, at, end, &head):
            if head.attributes & CODEC and body is None:
                break
            if head.attributes & CONTROL or head.count > MOST_LINES:
                break
            mark = text.used
            batch_line(&text, &head, position + at - start)
            if body is None:
                records, size = data + at + HEADER_SIZE, head.size - HEADER_SIZE
            else:
                records, size = bytes_of(body), body.shape[0]
            if not records_text(&text, records, size, &head, &last, with_data, gaps):
                text.used = mark
                break
            at += head.size
            if body is not None:
                break
        return PyBytes_FromStringAndSize(text.data, text.used), at, last, gaps
    finally:
        free(text.data)
