/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of a stretch of bytes.
 *
 * The CPU's instruction takes eight bytes a step but needs three cycles to give its result, so three
 * neighbouring blocks are summed at once and then joined:
 *
 *     | block A | block B | block C |     crc(A B C) = shift(shift(crc(A)) ^ crc(B)) ^ crc(C)
 *
 * where shift() moves a sum past as many zero bytes as a block holds. It is linear, so four tables of 256
 * entries, one a byte of the sum, are enough. Three streams are more than the CPU foresees by itself, so it is
 * told what comes next; that halves the time of what is not in its nearest caches. A small batch is cut into three lanes of any number of words;
 * there shift() is a multiplication without carries by a power of x, one for every length, which the same
 * instruction reduces. Where the CPU has no such instruction, eight tables take eight bytes a step.
 */
#ifndef KAFKATOOL_CRC32C_H
#define KAFKATOOL_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#include <wmmintrin.h>
#define CRC_INSTRUCTION __attribute__((target("sse4.2,pclmul")))
#define crc_byte(sum, byte) _mm_crc32_u8((sum), (byte))
#define crc_half(sum, half) _mm_crc32_u32((sum), (half))
#define crc_word(sum, word) ((uint32_t)_mm_crc32_u64((sum), (word)))
#define crc_product(a, b) ((uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128( \
    _mm_cvtsi64_si128((long long)(a)), _mm_cvtsi64_si128((long long)(b)), 0)))
static int crc_has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
#elif defined(__aarch64__) && defined(__GNUC__) && defined(__linux__)
#include <sys/auxv.h>
#if defined(__clang__)
#define CRC_INSTRUCTION __attribute__((target("crc")))
#define crc_byte(sum, byte) __builtin_arm_crc32cb((sum), (byte))
#define crc_half(sum, half) __builtin_arm_crc32cw((sum), (half))
#define crc_word(sum, word) __builtin_arm_crc32cd((sum), (word))
#else
#define CRC_INSTRUCTION __attribute__((target("+crc")))
#define crc_byte(sum, byte) __builtin_aarch64_crc32cb((sum), (byte))
#define crc_half(sum, half) __builtin_aarch64_crc32cw((sum), (half))
#define crc_word(sum, word) __builtin_aarch64_crc32cx((sum), (word))
#endif
#define CRC_HWCAP (1 << 7) /* HWCAP_CRC32 */
static int crc_has_instruction(void) { return (getauxval(AT_HWCAP) & CRC_HWCAP) != 0; }
#endif

#define CRC_POLYNOMIAL 0x82F63B78u
#define CRC_BLOCK 256 /* bytes of one block of three */
#define CRC_SMALL (3 * CRC_BLOCK) /* from here on blocks, below it lanes */
#define CRC_AHEAD (2 * CRC_SMALL) /* how far before its turn a line is asked for */
#define CRC_LINE 64

static uint32_t crc_steps[8][256];
static uint32_t crc_past_block[4][256];
static uint32_t crc_powers[CRC_SMALL];
static int crc_uses_instruction;

static uint32_t crc_table_steps(uint32_t sum, const uint8_t *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        sum ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        sum = crc_steps[7][sum & 0xff] ^ crc_steps[6][sum >> 8 & 0xff] ^ crc_steps[5][sum >> 16 & 0xff] ^
              crc_steps[4][sum >> 24] ^ crc_steps[3][at[4]] ^ crc_steps[2][at[5]] ^ crc_steps[1][at[6]] ^
              crc_steps[0][at[7]];
    }
    for (; size; at++, size--)
        sum = crc_steps[0][(sum ^ *at) & 0xff] ^ sum >> 8;
    return sum;
}

static uint32_t crc_shift(uint32_t table[4][256], uint32_t sum)
{
    return table[0][sum & 0xff] ^ table[1][sum >> 8 & 0xff] ^ table[2][sum >> 16 & 0xff] ^ table[3][sum >> 24];
}

/* What each bit of a sum becomes behind `size` zero bytes, and from the bits every byte. */
static void crc_make_shift(uint32_t table[4][256], size_t size)
{
    static const uint8_t zeros[CRC_BLOCK];
    for (int byte = 0; byte < 4; byte++) {
        table[byte][0] = 0;
        for (int bit = 0; bit < 8; bit++) {
            uint32_t moved = crc_table_steps(1u << (8 * byte + bit), zeros, size);
            for (int low = 0; low < 1 << bit; low++)
                table[byte][low | 1 << bit] = table[byte][low] ^ moved;
        }
    }
}

static void crc_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ CRC_POLYNOMIAL : sum >> 1;
        crc_steps[0][byte] = sum;
    }
    for (int step = 1; step < 8; step++)
        for (int byte = 0; byte < 256; byte++)
            crc_steps[step][byte] =
                crc_steps[step - 1][byte] >> 8 ^ crc_steps[0][crc_steps[step - 1][byte] & 0xff];
    crc_make_shift(crc_past_block, CRC_BLOCK);
#ifdef CRC_INSTRUCTION
    crc_uses_instruction = crc_has_instruction();
#endif
    /* x to the power of 8 n - 33, for n bytes: the product of two reflected numbers is short of one x, and
       the instruction brings 32 with it. */
    uint32_t power = 1u << (31 - (8 * 5 - 33));
    for (int bytes = 5; bytes < CRC_SMALL; bytes++) {
        crc_powers[bytes] = power;
        for (int bit = 0; bit < 8; bit++)
            power = power & 1 ? power >> 1 ^ CRC_POLYNOMIAL : power >> 1;
    }
}

#ifdef CRC_INSTRUCTION
static inline uint64_t crc_load(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

CRC_INSTRUCTION static inline uint32_t crc_three_blocks(uint32_t sum, const uint8_t *at)
{
    const uint8_t *a = at, *b = a + CRC_BLOCK, *c = b + CRC_BLOCK, *end = b;
    uint64_t first = sum, second = 0, third = 0;
    while (a < end) {
        __builtin_prefetch(a + CRC_AHEAD); /* past the end of the batch it does nothing, or what is wanted next */
        __builtin_prefetch(b + CRC_AHEAD);
        __builtin_prefetch(c + CRC_AHEAD);
        for (int word = 0; word < CRC_LINE / 8; word++, a += 8, b += 8, c += 8) {
            first = crc_word(first, crc_load(a));
            second = crc_word(second, crc_load(b));
            third = crc_word(third, crc_load(c));
        }
    }
    sum = crc_shift(crc_past_block, (uint32_t)first) ^ (uint32_t)second;
    return crc_shift(crc_past_block, sum) ^ (uint32_t)third;
}

CRC_INSTRUCTION static inline uint32_t crc_one_lane(uint32_t sum, const uint8_t *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8)
        sum = crc_word(sum, crc_load(at));
    if (size >= 4) {
        uint32_t half;
        memcpy(&half, at, 4);
        sum = crc_half(sum, half);
        at += 4;
        size -= 4;
    }
    for (; size; at++, size--)
        sum = crc_byte(sum, *at);
    return sum;
}

#ifdef crc_product
/* The third lane takes what is left over, while the others are moved past it. */
CRC_INSTRUCTION static inline uint32_t crc_three_lanes(uint32_t sum, const uint8_t *at, size_t size)
{
    size_t lane = size / 24 * 8, left = size - 2 * lane;
    const uint8_t *a = at, *b = a + lane, *c = b + lane, *end = b;
    uint64_t first = sum, second = 0, third = 0;
    for (; a < end; a += 8, b += 8, c += 8) {
        first = crc_word(first, crc_load(a));
        second = crc_word(second, crc_load(b));
        third = crc_word(third, crc_load(c));
    }
    first = crc_product(first, crc_powers[lane + left]) ^ crc_product(second, crc_powers[left]);
    return crc_word(0, first) ^ crc_one_lane((uint32_t)third, c, left - lane);
}
#endif

CRC_INSTRUCTION static uint32_t crc_instruction_steps(uint32_t sum, const uint8_t *at, size_t size)
{
    for (; size >= CRC_SMALL; at += CRC_SMALL, size -= CRC_SMALL)
        sum = crc_three_blocks(sum, at);
#ifdef crc_product
    if (size >= 48)
        return crc_three_lanes(sum, at, size);
#endif
    return crc_one_lane(sum, at, size);
}
#endif

static uint32_t crc32c_of(const uint8_t *at, size_t size, uint32_t before)
{
    uint32_t sum = before ^ 0xffffffffu;
#ifdef CRC_INSTRUCTION
    if (crc_uses_instruction)
        return crc_instruction_steps(sum, at, size) ^ 0xffffffffu;
#endif
    return crc_table_steps(sum, at, size) ^ 0xffffffffu;
}

#endif
