# The last offset of every key.

cdef enum:
    KEY_PARTS = 64  # tables that grow one at a time, so that growing never needs much extra memory
    FEWEST_SLOTS = 16
    AT_ONCE = 64  # keys whose rows are prefetched together
    IS_TAKEN = 1  # marks of records: see verdicts.py
    IS_SUPERSEDED = 2

cdef struct KeyRow:
    uint64_t first
    uint64_t second
    int64_t offset  # -1: a free row


cdef struct Key:
    uint64_t first
    uint64_t second


cdef class KeyOffsets:
    cdef KeyRow *rows[KEY_PARTS]
    cdef int64_t slots[KEY_PARTS]
    cdef int64_t used[KEY_PARTS]
    cdef readonly int64_t count

    def __cinit__(self):
        cdef int part
        self.count = 0
        for part in range(KEY_PARTS):
            self.rows[part] = NULL
            self.slots[part] = self.used[part] = 0

    def __dealloc__(self):
        cdef int part
        for part in range(KEY_PARTS):
            free(self.rows[part])

    def __len__(self):
        return self.count

    cdef inline KeyRow *_find(self, uint64_t first, uint64_t second) noexcept nogil:
        """Return the row of a key, or the free one where it belongs; NULL if there is no table yet."""
        cdef int64_t part = second >> 58, slots = self.slots[part], at
        cdef KeyRow *rows = self.rows[part]
        if slots == 0:
            return NULL
        at = <int64_t>(<uint64_t><uint32_t>second * <uint64_t>slots >> 32)
        while rows[at].offset >= 0 and not (rows[at].first == first and rows[at].second == second):
            at += 1
            if at == slots:
                at = 0
        return &rows[at]

    cdef void _hash_next(
        self, const uint8_t *source, const int64_t[::1] starts, const int64_t[::1] sizes, int64_t first, Key *keys
    ) noexcept nogil:
        """Hash the next keys; their rows are being prefetched when this returns."""
        cdef int64_t each, part
        cdef Key *key
        cdef KeyRow *row
        for each in range(first, min(first + AT_ONCE, <int64_t>starts.shape[0])):
            if sizes[each] >= 0:
                key = &keys[each - first]
                key_hash(source + starts[each], <size_t>sizes[each], &key.first, &key.second)
                part = key.second >> 58
                if self.slots[part]:
                    row = &self.rows[part][<uint64_t><uint32_t>key.second * <uint64_t>self.slots[part] >> 32]
                    key_prefetch(row)
                    key_prefetch(<uint8_t *>row + 2 * sizeof(KeyRow) - 1)  # and the next row, in case it is not this one

    cdef int _grow(self, int64_t part) except -1 nogil:
        """Add a quarter more slots, which keeps at least three fifths of them in use."""
        cdef KeyRow *before = self.rows[part]
        cdef int64_t slots = self.slots[part], each, wanted = max(<int64_t>FEWEST_SLOTS, slots + slots // 4)
        cdef KeyRow *after = <KeyRow *>realloc(NULL, wanted * sizeof(KeyRow))
        if after == NULL:
            with gil:
                raise MemoryError()
        for each in range(wanted):
            after[each].offset = -1
        self.rows[part], self.slots[part] = after, wanted
        for each in range(slots):
            if before[each].offset >= 0:
                self._find(before[each].first, before[each].second)[0] = before[each]
        free(before)
        return 0

    def put(self, const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] sizes, const int64_t[::1] offsets, int64_t most):
        cdef int64_t count = starts.shape[0], each
        cdef Key[AT_ONCE] keys
        cdef const uint8_t *source = bytes_of(data)
        check_fields(data, starts, sizes, offsets.shape[0])
        for each in range(count):
            if sizes[each] >= 0 and offsets[each] < 0:
                raise ValueError("offsets are counted from 0")
        each = 0
        with nogil:
            while each < count:
                if each % AT_ONCE == 0:
                    self._hash_next(source, starts, sizes, each, keys)
                if sizes[each] >= 0:
                    if self.count >= most:
                        break
                    self._put(&keys[each % AT_ONCE], offsets[each])
                each += 1
        return each

    cdef inline int64_t _put(self, Key *key, int64_t offset) except? -2 nogil:
        """Store an offset; return the one stored before, or -1."""
        cdef int64_t part = key.second >> 58, before
        cdef KeyRow *row
        if (self.used[part] + 1) * 4 > self.slots[part] * 3:
            self._grow(part)
        row = self._find(key.first, key.second)
        if row.offset < 0:
            row.first, row.second = key.first, key.second
            self.used[part] += 1
            self.count += 1
        before = row.offset
        row.offset = offset
        return before

    def put_marking(
        self,
        const uint8_t[::1] data,
        const int64_t[::1] starts,
        const int64_t[::1] sizes,
        const int64_t[::1] offsets,
        int64_t most,
        int64_t first,
        uint8_t[::1] marks,
    ):
        cdef int64_t count = starts.shape[0], room = marks.shape[0], each, begin, stop, at
        cdef int64_t[AT_ONCE] before
        cdef bint is_full = False
        cdef Key[AT_ONCE] keys
        cdef const uint8_t *source = bytes_of(data)
        check_fields(data, starts, sizes, offsets.shape[0])
        for each in range(count):
            if sizes[each] >= 0 and not first <= offsets[each] < first + room:
                raise ValueError(f"no mark for offset {offsets[each]}")
        if first < 0:
            raise ValueError("offsets are counted from 0")
        each = 0
        with nogil:
            while each < count and not is_full:
                self._hash_next(source, starts, sizes, each, keys)
                begin, stop = each, min(each + AT_ONCE, count)
                while each < stop:
                    before[each - begin] = -1
                    if sizes[each] >= 0:
                        if self.count >= most:
                            is_full = True
                            break
                        before[each - begin] = self._put(&keys[each - begin], offsets[each])
                        marks[offsets[each] - first] |= IS_TAKEN
                    each += 1
                # In a loop of its own: marks that are far apart are fetched in parallel.
                for at in range(each - begin):
                    if first <= before[at] < first + room:
                        marks[before[at] - first] |= IS_SUPERSEDED
        return each

    def get(self, const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] sizes, int64_t[::1] into):
        cdef int64_t count = starts.shape[0], each
        cdef Key[AT_ONCE] keys
        cdef const uint8_t *source = bytes_of(data)
        cdef KeyRow *row
        check_fields(data, starts, sizes, into.shape[0])
        with nogil:
            for each in range(count):
                if each % AT_ONCE == 0:
                    self._hash_next(source, starts, sizes, each, keys)
                into[each] = -1
                if sizes[each] >= 0:
                    row = self._find(keys[each % AT_ONCE].first, keys[each % AT_ONCE].second)
                    if row != NULL:
                        into[each] = row.offset
