# Fields of many records, and entries of indexes.

cdef int check_fields(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] sizes, int64_t room) except -1:
    cdef int64_t each, count = starts.shape[0]
    if sizes.shape[0] != count or room < count:
        raise ValueError("as many sizes as starts, and room for what becomes of them")
    for each in range(count):
        if sizes[each] >= 0 and not 0 <= starts[each] <= data.shape[0] - sizes[each]:
            raise ValueError(f"{starts[each]} is outside {data.shape[0]} bytes")
    return 0


def gather(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] sizes, int64_t[::1] ends):
    cdef int64_t count = starts.shape[0], total = 0, each, at = 0
    cdef const uint8_t *source = bytes_of(data)
    cdef char *target
    check_fields(data, starts, sizes, ends.shape[0])
    for each in range(count):
        total += max(sizes[each], 0)
    gathered = PyBytes_FromStringAndSize(NULL, total)
    target = gathered
    with nogil:
        for each in range(count):
            if sizes[each] > 0:
                memcpy(target + at, source + starts[each], sizes[each])
                at += sizes[each]
            ends[each] = at
    return gathered


def hashes(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] sizes, uint64_t[::1] into):
    cdef int64_t count = starts.shape[0], each, at
    cdef uint64_t value
    cdef const uint8_t *source = bytes_of(data)
    check_fields(data, starts, sizes, into.shape[0])
    with nogil:
        for each in range(count):
            value = <uint64_t>14695981039346656037ULL
            for at in range(sizes[each]):
                value = (value ^ source[starts[each] + at]) * <uint64_t>1099511628211
            into[each] = value


def index_columns(const uint8_t[::1] data, bint is_time, int64_t[::1] first, int64_t[::1] second):
    cdef int64_t count = first.shape[0], row, size = 12 if is_time else 8
    cdef const uint8_t *at = bytes_of(data)
    if second.shape[0] != count or count > data.shape[0] // size:
        raise ValueError("columns of one length, and no more of them than there are entries")
    with nogil:
        for row in range(count):
            first[row] = be64(at) if is_time else <int32_t>be32(at)
            second[row] = <int32_t>be32(at + size - 4)
            at += size


def rising(const int64_t[::1] values, int64_t least):
    cdef int64_t count = values.shape[0], row = 0
    with nogil:
        while row < count and values[row] >= least:
            least = values[row]
            row += 1
            if row < count and values[row] == least:
                break
    return row
