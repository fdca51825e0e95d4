/* 128 bits that stand for a key, from two functions of its bytes that share no constant.
 *
 * Eight bytes a step; the last step takes the last eight, some of them for the second time, or all there are.
 * The size goes in first, so that no key is another with zeros behind it. Every step can be undone, so two keys
 * that differ in one step only never meet.
 */
#ifndef KAFKATOOL_KEY_HASH_H
#define KAFKATOOL_KEY_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t key_turn(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

static inline uint64_t key_finish(uint64_t value)
{
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93u;
    value = (value ^ value >> 29) * 0x9FB21C651E98DF25u;
    return value ^ value >> 32;
}

static inline uint64_t key_last_word(const uint8_t *at, size_t size)
{
    uint64_t word = 0;
    uint32_t half;
    if (size >= 4) {
        memcpy(&half, at, 4);
        word = (uint64_t)half << 32;
        memcpy(&half, at + size - 4, 4);
        return word | half;
    }
    for (size_t byte = 0; byte < size; byte++)
        word |= (uint64_t)at[byte] << 8 * byte;
    return word;
}

static inline void key_hash(const uint8_t *at, size_t size, uint64_t *first, uint64_t *second)
{
    uint64_t one = size * 0x9E3779B97F4A7C15u + 0x243F6A8885A308D3u, other = ~size * 0xC2B2AE3D27D4EB4Fu, word;
    const uint8_t *end = at + size;
    for (; end - at > 8; at += 8) {
        memcpy(&word, at, 8);
        one = (one ^ word) * 0xA0761D6478BD642Fu;
        one ^= one >> 31;
        other = key_turn((other + word) * 0xE7037ED1A0B428DBu, 29);
    }
    if (size >= 8)
        memcpy(&word, end - 8, 8);
    else
        word = key_last_word(at, size);
    *first = key_finish((one ^ word) * 0xA0761D6478BD642Fu);
    *second = key_finish((other + word) * 0xE7037ED1A0B428DBu);
}

/* Ask for memory that will be needed soon. */
static inline void key_prefetch(const void *at)
{
#if defined(__GNUC__)
    __builtin_prefetch(at, 1, 3);
#endif
}

#endif
