#!/usr/bin/env python3
"""Prints the golden vectors of sampler_test.cpp.

A second implementation of the permutation of engine/data/sampler.h, written from its description:
a Feistel network of 16 rounds on bit_length(n - 1) bits with splitmix64's finaliser, and cycle walking.
"""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def permute(index, n, seed, epoch):
    if n == 1:
        return 0
    bits = (n - 1).bit_length()
    low_count = bits - bits // 2
    low_mask, high_mask = (1 << low_count) - 1, (1 << (bits // 2)) - 1
    key = mix(mix(seed + GOLDEN) + GOLDEN * (epoch + 1))
    value = index
    while True:
        low, high = value & low_mask, value >> low_count
        for turn in range(16):
            round_key = mix(key + GOLDEN * (turn + 1))
            if turn % 2 == 0:
                low ^= mix(high + round_key) & low_mask
            else:
                high ^= mix(low + round_key) & high_mask
        value = high << low_count | low
        if value < n:
            return value


if __name__ == "__main__":
    for n, seed, epoch, count in [
        (10, 0, 0, 10),
        (10, 0, 1, 10),
        (10, 1, 0, 10),
        (1000, 1234, 0, 8),
        (1000, 1234, 7, 8),
        ((1 << 48) - 59, 42, 3, 4),
        (MASK, MASK, MASK, 4),
    ]:
        print(n, seed, epoch, [permute(i, n, seed, epoch) for i in range(count)])
