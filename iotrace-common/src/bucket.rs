//! Access-size buckets by Darshan's definition (`POSIX_SIZE_READ_0_100` and so on): ten, with inclusive upper bounds.

/// Number of access-size buckets.
pub const SIZES: usize = 10;

/// Inclusive upper bound of each bucket but the last, bytes.
pub const SIZE_BOUNDS: [u64; SIZES - 1] = [
    100,
    1 << 10,
    10 << 10,
    100 << 10,
    1 << 20,
    4 << 20,
    10 << 20,
    100 << 20,
    1 << 30,
];

/// Names of the buckets as Darshan writes them.
pub const SIZE_NAMES: [&str; SIZES] = [
    "0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G",
    "1G_PLUS",
];

/// Bucket of an access that moved `bytes` bytes.
#[inline(always)]
pub const fn size_bucket(bytes: u64) -> usize {
    // A tree of four comparisons, not a loop over the bounds: this runs in the kernel at every read and write.
    if bytes <= 100 << 10 {
        if bytes <= 1 << 10 {
            if bytes <= 100 { 0 } else { 1 }
        } else if bytes <= 10 << 10 {
            2
        } else {
            3
        }
    } else if bytes <= 10 << 20 {
        if bytes <= 1 << 20 {
            4
        } else if bytes <= 4 << 20 {
            5
        } else {
            6
        }
    } else if bytes <= 100 << 20 {
        7
    } else if bytes <= 1 << 30 {
        8
    } else {
        9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        for (bucket, bound) in SIZE_BOUNDS.iter().enumerate() {
            assert_eq!(size_bucket(*bound), bucket);
            assert_eq!(size_bucket(bound + 1), bucket + 1);
        }
        assert_eq!(size_bucket(0), 0);
        assert_eq!(size_bucket(u64::MAX), SIZES - 1);
    }
}
