//! Log-linear histogram of nanoseconds with fixed bounds: exact below 64 ns, then 32 steps per power of two, so a
//! bucket is at most 3.1 % wide and its middle at most 1.6 % from any value in it.

const STEP_BITS: u32 = 5;
const STEPS: u32 = 1 << STEP_BITS;
/// Values of 2^40 ns (18 minutes) and more share the last bucket.
const MAX_BIT: u32 = 40;

/// Number of buckets in a histogram.
pub const HISTOGRAM_BUCKETS: usize = ((MAX_BIT - STEP_BITS + 1) * STEPS) as usize;

/// Counts by duration; one per CPU in the kernel, summed in userspace.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Histogram {
    /// How many values fell into each bucket.
    pub counts: [u64; HISTOGRAM_BUCKETS],
}
crate::shared!(Histogram, 8 * HISTOGRAM_BUCKETS);

/// The bucket that holds a duration. 64-bit throughout: a narrowing in between would hide from the verifier that the
/// index it checks is the index it uses.
#[inline(always)]
pub const fn bucket_of(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let bit = highest_bit(ns);
    if bit >= MAX_BIT as u64 {
        return HISTOGRAM_BUCKETS - 1;
    }
    let shift = bit - STEP_BITS as u64;
    ((shift << STEP_BITS) + (ns >> shift)) as usize
}

/// Position of the highest set bit of a non-zero value. Spelled out because the BPF instruction set has no
/// count-leading-zeros and the compiler's expansion of it is three times as long.
#[inline(always)]
const fn highest_bit(value: u64) -> u64 {
    let mut rest = value;
    let mut bit = 0;
    if rest >= 1 << 32 {
        rest >>= 32;
        bit += 32;
    }
    if rest >= 1 << 16 {
        rest >>= 16;
        bit += 16;
    }
    if rest >= 1 << 8 {
        rest >>= 8;
        bit += 8;
    }
    if rest >= 1 << 4 {
        rest >>= 4;
        bit += 4;
    }
    if rest >= 1 << 2 {
        rest >>= 2;
        bit += 2;
    }
    if rest >= 1 << 1 {
        bit += 1;
    }
    bit
}

/// Smallest duration of a bucket in nanoseconds.
pub const fn lower_bound(bucket: u32) -> u64 {
    if bucket < 2 * STEPS {
        return bucket as u64;
    }
    let shift = (bucket >> STEP_BITS) - 1;
    ((bucket - (shift << STEP_BITS)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_holds_its_own_bounds() {
        for bucket in 0..HISTOGRAM_BUCKETS as u32 {
            let low = lower_bound(bucket);
            assert_eq!(bucket_of(low), bucket as usize, "lower bound {low}");
            if (bucket as usize) < HISTOGRAM_BUCKETS - 1 {
                let next = lower_bound(bucket + 1);
                assert_eq!(bucket_of(next - 1), bucket as usize, "below {next}");
                assert!(low < 64 || (next - low) * 32 <= low, "bucket {bucket} is wider than 1/32");
            }
        }
        assert_eq!(bucket_of(u64::MAX), HISTOGRAM_BUCKETS - 1);
    }
}
