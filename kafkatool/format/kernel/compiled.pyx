# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False, cdivision=True, show_performance_hints=False
"""The compiled kernel. Each function does what reference.py's function of the same name does.

What comes from a disk is read through `Cursor` alone, which never passes its end, or from a header of which
all 61 bytes are known to be there. At invalid bytes a function stops before them and shows it by how far it
got; the reference then finds out what is wrong with them.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final

cdef extern from "crc32c.h":
    void crc_prepare() nogil
    uint32_t crc32c_of(const uint8_t *at, size_t size, uint32_t before) nogil
    uint32_t crc_table_steps(uint32_t sum, const uint8_t *at, size_t size) nogil
    int crc_uses_instruction

cdef extern from "key_hash.h":
    void key_hash(const uint8_t *at, size_t size, uint64_t *first, uint64_t *second) nogil
    void key_prefetch(const void *at) nogil

crc_prepare()

NAME = "compiled, CRC by the CPU" if crc_uses_instruction else "compiled, CRC by tables"

cdef enum:
    HEADER_SIZE = 61
    LOG_OVERHEAD = 12
    CRC_START = 21
    MAX_INT32 = 0x7FFFFFFF
    CODEC = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    HORIZON = 0x40

cdef int64_t MAX_INT64 = 0x7FFFFFFFFFFFFFFF


def crc32c(const uint8_t[::1] data, uint32_t value=0):
    """Return the CRC-32C of the bytes, continuing from `value`."""
    cdef uint32_t result
    if data.shape[0] == 0:
        return value
    with nogil:
        result = crc32c_of(&data[0], data.shape[0], value)
    return result


def crc32c_by_tables(const uint8_t[::1] data, uint32_t value=0):
    """Return the same, computed as on a CPU without an instruction for it."""
    if data.shape[0] == 0:
        return value
    return crc_table_steps(value ^ 0xFFFFFFFF, &data[0], data.shape[0]) ^ 0xFFFFFFFF

include "batches.pxi"  # batch headers, and runs of good batches
include "text.pxi"  # numbers and batch headers as the text of kafka-dump-log
include "records.pxi"  # records to columns
include "fields.pxi"  # fields of many records, and entries of indexes
include "keys.pxi"  # the last offset of every key
include "encoding.pxi"  # records from columns
include "appending.pxi"  # whole batches from columns
include "index_counts.pxi"  # which index entries a batch gets
include "cleaning.pxi"  # what the log cleaner keeps
include "record_text.pxi"  # records as the text of kafka-dump-log
include "tally.pxi"  # what a walk counts
