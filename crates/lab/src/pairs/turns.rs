//! Sleepers in turn: several ways between one pair of processes, so many records by each before it is the next one's turn.
//!
//! Invariant: of each way as many records count as of the others. Two pairs of one program differ by more than what is looked for, so
//! ways that are compared so closely have the same two processes.
//! Not here: what a way is, how long a record takes.

/// Records by one way until it is the next one's turn, and those before them that do not count: what the others have pushed out of the
/// caches comes back with them, and a timer that an end of theirs had pending (ADR 19) is over.
pub const TURN: usize = 20;
const FIRST: usize = 4;
/// At the start: more than make a pipe worth a ring, and then show that it brings nothing.
const WARM: usize = 100;

/// The order of all records: by which way each goes, and whether it counts. Of each way `n` do.
pub fn turns(ways: usize, n: usize) -> Vec<(usize, bool)> {
    let all = |counts: bool, n: usize| (0..ways).flat_map(move |p| vec![(p, counts); n]);
    let mut v: Vec<_> = all(false, WARM).collect();
    for done in (0..n).step_by(TURN) {
        let turn = TURN.min(n - done);
        v.extend((0..ways).flat_map(|p| [vec![(p, false); FIRST], vec![(p, true); turn]].concat()));
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_turns() {
        let v = turns(2, 30);
        for way in 0..2 {
            assert_eq!(v.iter().filter(|t| **t == (way, true)).count(), 30);
            assert_eq!(
                v.iter().filter(|t| **t == (way, false)).count(),
                WARM + 2 * FIRST
            );
        }
        assert_eq!(v[2 * WARM + FIRST], (0, true));
        assert_eq!(v[2 * WARM + FIRST + TURN], (1, false));
        assert_eq!(v.last(), Some(&(1, true)));
    }
}
