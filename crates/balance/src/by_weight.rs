//! A pick without any table: in proportion to the weights of what may be used, by a look at every candidate.
//!
//! Where the other algorithms end up when nearly nothing may be used, and their tables would be searched for long.

use crate::Pick;

/// The candidate at `position` of 2^64, each taking as much of that as its weight says; of those that `may` be
/// used, or `None`.
pub(crate) fn pick_by_weight(pick: &Pick<'_>, position: u64, may: impl Fn(u32) -> bool) -> Option<u32> {
    let usable = || {
        let all = (0_u32..).zip(pick.candidates);
        all.filter(|(index, _)| may(*index)).map(|(index, candidate)| (index, u64::from(candidate.weight)))
    };
    let total: u64 = usable().map(|(_, weight)| weight).sum();
    let mut target = ((u128::from(position) * u128::from(total)) >> 64) as u64;
    usable().find_map(|(index, weight)| match target.checked_sub(weight) {
        Some(left) => {
            target = left;
            None
        }
        None => Some(index),
    })
}
