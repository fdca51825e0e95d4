# What a walk counts.

cdef enum:
    MORE = 0
    ODD = 1
    INDEX = 2
    TIME = 3
    EPOCH = 4
    PRODUCER = 5
    RECORDS = 6
    MOST_PRODUCERS = 32

cdef struct Producer:
    int64_t id
    int16_t epoch
    int32_t last_sequence
    int64_t last_offset
    int32_t offset_delta
    int64_t timestamp
    int64_t first_offset  # of its transactional data, or -1
    bint has_records


@final
cdef class Tally:
    """See reference.Tally."""

    cdef public int64_t batches, records, thinned, holes
    cdef public int64_t first_offset, last_offset, previous_offset, last_base, last_position
    cdef public int64_t max_timestamp, max_filled_timestamp, epoch
    cdef public int64_t indexed, timed, settled_producer, settled_records
    cdef int64_t base, highest
    cdef bint deep
    cdef const int64_t[::1] offsets, positions, times, time_offsets
    cdef Producer[MOST_PRODUCERS] seen
    cdef int seen_count

    def __init__(self, int64_t base, highest, claims, bint deep):
        if base < 0:
            raise ValueError("offsets are counted from 0")
        self.base, self.highest, self.deep = base, min(highest, MAX_INT64), deep
        self.offsets, self.positions, self.times, self.time_offsets = claims
        if self.offsets.shape[0] != self.positions.shape[0] or self.times.shape[0] != self.time_offsets.shape[0]:
            raise ValueError("an index has as many offsets as positions or times")
        self.batches = self.records = self.thinned = self.holes = self.seen_count = 0
        self.first_offset = self.last_base = self.last_position = 0
        self.last_offset = base - 1
        self.previous_offset = self.max_timestamp = self.max_filled_timestamp = -1
        self.epoch = -MAX_INT64
        self.indexed = self.timed = 0
        self.settled_producer = self.settled_records = -1

    def run(self, const uint8_t[::1] window, int64_t start, int64_t stop, int64_t position, int64_t end):
        cdef Head head
        cdef int why = MORE
        cdef int64_t at = start
        cdef const uint8_t *data = bytes_of(window)
        stop = within(window, start, stop)
        if self.indexed < 0 or self.timed < 0:
            raise ValueError("entries are counted from 0")
        with nogil:
            while position < end:
                why = self.look_at(data, at, stop, position, &head)
                if why >= 0:
                    break
                self.count(&head, position)
                at += head.size
                position += head.size
            else:
                why = MORE
        return at, why

    cdef inline int look_at(self, const uint8_t *data, int64_t at, int64_t stop, int64_t position, Head *head) noexcept nogil:
        """Return -1 if everything agrees with the batch; else why it does not."""
        cdef int64_t reach
        if stop - at < HEADER_SIZE:
            return MORE
        read_head(data + at, head)
        if head.size > stop - at:
            return MORE
        if not is_plain(head, stop - at) or head.base_offset <= self.last_offset:
            return ODD
        reach = head.base_offset + head.delta
        if head.base_offset < self.base or reach > self.highest or not crc_holds(data + at, head):
            return ODD
        if not self.index_agrees(head, position):
            return INDEX
        if not self.times_agree(head, reach):
            return TIME
        if head.leader_epoch != self.epoch:
            return EPOCH
        if head.producer_id >= 0 and self.settled_producer != position and not self.take_producer(data + at):
            return PRODUCER
        if self.deep and self.settled_records != position:
            if head.attributes & CODEC:
                return RECORDS
            if not own_records_in_order(data + at):
                return RECORDS
        return -1

    cdef inline bint index_agrees(self, Head *head, int64_t position) noexcept nogil:
        if self.indexed >= self.positions.shape[0] or self.positions[self.indexed] > position:
            return True
        if self.positions[self.indexed] < position:
            return False
        if self.offsets[self.indexed] < head.base_offset - self.base:
            return False
        self.indexed += 1
        return True

    cdef inline bint times_agree(self, Head *head, int64_t reach) noexcept nogil:
        cdef int64_t newest = max(head.max_timestamp, self.max_timestamp)
        while self.timed < self.time_offsets.shape[0] and self.time_offsets[self.timed] <= reach - self.base:
            if not self.max_filled_timestamp <= self.times[self.timed] <= newest:
                return False
            self.timed += 1
        return True

    cdef bint take_producer(self, const uint8_t *batch) noexcept nogil:
        """Return False for a marker, another epoch of the same producer, or one producer too many."""
        cdef int at = 0
        cdef Producer *seen
        cdef Head head
        read_head(batch, &head)
        if head.attributes & CONTROL:
            return False
        while at < self.seen_count and self.seen[at].id != head.producer_id:
            at += 1
        if at == MOST_PRODUCERS:
            return False
        seen = &self.seen[at]
        if at == self.seen_count:
            self.seen_count += 1
            seen.id, seen.epoch, seen.first_offset, seen.has_records = head.producer_id, head.producer_epoch, -1, False
        elif seen.epoch != head.producer_epoch:
            return False
        seen.last_sequence = last_sequence(head.sequence, head.delta)
        seen.last_offset = head.base_offset + head.delta
        seen.offset_delta, seen.timestamp = head.delta, head.max_timestamp
        if head.attributes & TRANSACTIONAL:
            if seen.first_offset < 0:
                seen.first_offset = head.base_offset
            if head.count:
                seen.has_records = True
        return True

    cdef inline void count(self, Head *head, int64_t position) noexcept nogil:
        if self.batches == 0:
            self.first_offset = head.base_offset
        elif head.base_offset != self.last_offset + 1:
            self.holes += 1
        if head.count != <int64_t>head.delta + 1:
            self.thinned += 1
        if head.max_timestamp > self.max_timestamp:
            self.max_timestamp = head.max_timestamp
        if head.count and head.max_timestamp > self.max_filled_timestamp:
            self.max_filled_timestamp = head.max_timestamp
        self.batches += 1
        self.records += head.count
        self.previous_offset, self.last_offset = self.last_offset, head.base_offset + head.delta
        self.last_base, self.last_position = head.base_offset, position

    def drain(self):
        cdef int at
        rows = [
            (
                self.seen[at].id, self.seen[at].epoch, self.seen[at].last_sequence, self.seen[at].last_offset,
                self.seen[at].offset_delta, self.seen[at].timestamp, self.seen[at].first_offset, self.seen[at].has_records,
            )
            for at in range(self.seen_count)
        ]
        self.seen_count = 0
        return rows
