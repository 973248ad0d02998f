//! The hashes by which keys find endpoints. **Frozen**: a change would send nearly every key elsewhere, and two
//! versions of the proxy beside each other would disagree. The tests hold them to published values.

/// The fraction of the golden ratio, times 2^64: its multiples spread evenly (Weyl's sequence).
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of [`endpoint_id`]: a key that reads like an endpoint has nothing to do with it.
const ENDPOINT_SEED: u64 = 1;

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The hash of a key: the bytes of a header value, cookie, path, query or address. XXH64 with seed 0.
pub fn key_hash(bytes: &[u8]) -> u64 {
    xxh64(bytes, 0)
}

/// The identity of an endpoint by its URL or address, for [`Candidate::id`](crate::Candidate::id). XXH64 with
/// seed 1. The text is taken as it is: write it the same way everywhere.
pub fn endpoint_id(text: &str) -> u64 {
    xxh64(text.as_bytes(), ENDPOINT_SEED)
}

/// Makes every bit depend on every other, one to one (the finaliser of SplitMix64, Steele et al. 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `bound` from an evenly spread one, as evenly spread; 0 when the bound is.
pub(crate) fn scale(number: u64, bound: usize) -> usize {
    ((u128::from(number) * bound as u128) >> 64) as usize
}

/// XXH64 (Collet; xxhash.com, doc/xxhash_spec.md).
fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() { seed.wrapping_add(PRIMES[4]) } else { converge(stripes, seed) };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIMES[0]);
        hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIMES[4]);
        hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIMES[1]);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIMES[2]);
    hash ^ (hash >> 32)
}

/// Steps 1 to 3 of the specification: four accumulators over whole stripes.
fn converge(stripes: &[[u8; 32]], seed: u64) -> u64 {
    let mut lanes = [
        seed.wrapping_add(PRIMES[0]).wrapping_add(PRIMES[1]),
        seed.wrapping_add(PRIMES[1]),
        seed,
        seed.wrapping_sub(PRIMES[0]),
    ];
    for stripe in stripes {
        for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
    let [a, b, c, d] = lanes;
    let sum = a.rotate_left(1).wrapping_add(b.rotate_left(7));
    let sum = sum.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18));
    let merge =
        |hash: u64, lane: u64| (hash ^ round(0, lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    lanes.into_iter().fold(sum, merge)
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
}
