# How full the indexes of a segment are, and a fast path for one more batch.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize


cdef uint8_t *longer(bytearray entries, Py_ssize_t more) except NULL:
    """Make room for an entry after the others."""
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(entries)
    PyByteArray_Resize(entries, before + more)
    return <uint8_t *>PyByteArray_AS_STRING(entries) + before


cdef class IndexCounts:
    """See reference.IndexCounts."""

    cdef public int64_t base_offset, interval_bytes, max_offset_entries, max_time_entries
    cdef public int64_t bytes_since_entry, offset_entries, time_entries, last_indexed_offset
    cdef public int64_t last_time, last_time_offset, max_timestamp, max_timestamp_offset

    def __init__(self, int64_t base_offset, int64_t interval_bytes, int64_t max_offset_entries, int64_t max_time_entries):
        self.base_offset, self.interval_bytes = base_offset, interval_bytes
        self.max_offset_entries, self.max_time_entries = max_offset_entries, max_time_entries
        self.bytes_since_entry = self.offset_entries = self.time_entries = 0
        self.last_indexed_offset = self.last_time_offset = self.max_timestamp_offset = base_offset
        self.last_time = self.max_timestamp = -1

    def append_plain(
        self, write, data, int64_t position, int64_t next_offset, int64_t leader_epoch, int64_t latest_ms,
        bytearray offset_entries not None, bytearray time_entries not None,
    ):
        return self.append_one(write, data, position, next_offset, leader_epoch, latest_ms, offset_entries, time_entries)

    def append_each(
        self, write, clock, list appends not None, int64_t position, int64_t end, int64_t next_offset,
        int64_t enough, int64_t leader_epoch, int64_t latest_ms, bytearray offset_entries not None,
        bytearray time_entries not None,
    ):
        cdef list times = []
        cdef int64_t last
        for data in appends:
            if position > end - len(data) or next_offset >= enough:
                break
            last = self.append_one(write, data, position, next_offset, leader_epoch, latest_ms, offset_entries, time_entries)
            if last < 0:
                break
            position += len(data)
            next_offset = last + 1
            times.append(clock())
        return times, position, next_offset

    cdef int64_t append_one(
        self, write, data, int64_t position, int64_t next_offset, int64_t leader_epoch, int64_t latest_ms,
        bytearray offset_entries, bytearray time_entries,
    ) except -2:
        cdef Head head
        cdef Py_buffer view
        cdef int64_t last = -1
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if self.takes(<const uint8_t *>view.buf, view.len, position, next_offset, leader_epoch, latest_ms, &head):
                write(position, data)
                last = head.base_offset + head.delta
                self.count(&head, last, position, offset_entries, time_entries)
        finally:
            PyBuffer_Release(&view)
        return last

    cdef bint takes(
        self, const uint8_t *batch, int64_t size, int64_t position, int64_t next_offset, int64_t leader_epoch,
        int64_t latest_ms, Head *head,
    ) noexcept nogil:
        return (
            plain_head(batch, 0, size, head)
            and head.size == size
            and head.base_offset == next_offset
            and head.leader_epoch == leader_epoch
            and head.producer_id < 0
            and not head.attributes & (CONTROL | TRANSACTIONAL)
            and head.max_timestamp <= latest_ms
            and self.has_room(head.base_offset + head.delta, position)
            and crc_holds(batch, head)
        )

    cdef bint has_room(self, int64_t last, int64_t position) noexcept nogil:
        """Return whether both indexes could take an entry for this offset."""
        return (
            self.offset_entries + 1 < self.max_offset_entries
            and self.time_entries + 2 < self.max_time_entries
            and 0 <= position <= MAX_INT32
            and 0 <= self.base_offset <= last
            and last - self.base_offset <= MAX_INT32
            and (not self.offset_entries or last > self.last_indexed_offset)
            and self.base_offset <= self.last_time_offset <= self.max_timestamp_offset <= last
        )

    cdef int count(self, Head *head, int64_t last, int64_t position, bytearray offset_entries, bytearray time_entries) except -1:
        cdef uint8_t *at
        if head.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = head.max_timestamp, last
        if self.bytes_since_entry > self.interval_bytes:
            at = longer(offset_entries, 8)
            put_be32(at, <uint32_t>(last - self.base_offset))
            put_be32(at + 4, <uint32_t>position)
            self.offset_entries += 1
            self.last_indexed_offset = last
            self.bytes_since_entry = 0
            if self.max_timestamp > self.last_time:
                at = longer(time_entries, 12)
                put_be64(at, <uint64_t>self.max_timestamp)
                put_be32(at + 8, <uint32_t>(self.max_timestamp_offset - self.base_offset))
                self.time_entries += 1
                self.last_time, self.last_time_offset = self.max_timestamp, self.max_timestamp_offset
        self.bytes_since_entry += head.size
        return 0
