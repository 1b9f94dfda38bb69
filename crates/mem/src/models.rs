//! Models of the interleavings of what crosses processes: every order of the shipped code's steps, by loom.
//!
//! Invariant: each model runs the code of the program, not a copy, and each has controls: with one ordering weakened
//! (weak.rs) loom must find a failure, so a model that sees nothing cannot pass. Run by ci/loom.sh.
//! Not here: restartable sequences, death, other processes' memory (tests). LIMITS of loom: SeqCst accesses are no
//! stronger than AcqRel to it, and no load is seen before an earlier one of the same thread.
extern crate std;
use crate::bucket::scan;
use crate::layout::{BUCKET_MOST, Bucket, Class, DEPOT, Hints, Lock, Object};
use crate::registry::Key;
use crate::weak::{Edge, WEAK};
use byway_sys::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::vec::Vec;

/// One model at a time: the weakened edge is the program's.
static ONE: Mutex<()> = Mutex::new(());

fn explore(f: fn()) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(f);
}

/// The model holds, and does not with any of `controls` weakened.
fn holds(f: fn(), controls: &[Edge]) {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    WEAK.store(0, Relaxed);
    explore(f);
    for &e in controls {
        WEAK.store(e as u32, Relaxed);
        let found = catch_unwind(AssertUnwindSafe(|| explore(f))).is_err();
        WEAK.store(0, Relaxed);
        assert!(found, "the model does not see that {e:?} is weakened");
        std::println!("finds: {e:?} weakened");
    }
}

fn u32s(v: u32) -> AtomicU32 {
    AtomicU32::new(v)
}

fn bucket(state: u32, item: u32) -> Bucket {
    let b = Bucket {
        n: u32s(0),
        state: u32s(state),
        class: core::sync::atomic::AtomicU32::new(Class::Jumbo as u32),
        cpu: core::sync::atomic::AtomicU32::new(0),
        items: std::array::from_fn::<_, BUCKET_MOST, _>(|_| u32s(0)),
    };
    assert!(b.push(Class::Jumbo, item));
    b
}

/// What only its owner may touch: loom fails where two do at once, or one without having seen the other.
struct Owned(UnsafeCell<u32>);
// SAFETY: the point of the models: that only one has it is what loom checks.
unsafe impl Sync for Owned {}
// SAFETY: as above.
unsafe impl Send for Owned {}

impl Owned {
    fn new() -> Owned {
        Owned(UnsafeCell::new(0))
    }
    fn touch(&self) -> u32 {
        // SAFETY: loom reports any access at the same time.
        self.0.with_mut(|p| unsafe {
            *p += 1;
            *p
        })
    }
    fn look(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|p| unsafe { *p })
    }
}

/// B0 -> B1: a claimed bucket is one process's, who sees what the one before left in it.
#[test]
fn a_bucket_is_claimed_by_one() {
    holds(
        || {
            let it = Arc::new((bucket(DEPOT, 7), Owned::new()));
            let go = |me: u32| {
                let it = it.clone();
                spawn(move || {
                    let (b, owned) = &*it;
                    if !b.claim(me) {
                        return 0;
                    }
                    assert_eq!(b.count(Class::Jumbo), 1);
                    let x = b.pop(Class::Jumbo, |_| {}).unwrap();
                    assert_eq!(x, 7 + owned.touch() - 1, "an item of another time");
                    assert!(b.push(Class::Jumbo, x + 1));
                    b.deposit();
                    1
                })
            };
            let them: Vec<_> = [11, 12, 13].map(go).into_iter().collect();
            let n: u32 = them.into_iter().map(|t| t.join().unwrap()).sum();
            assert!(n > 0);
            assert!(it.0.claim(10));
            assert_eq!(it.0.pop(Class::Jumbo, |_| {}), Some(7 + n));
        },
        &[Edge::Deposit, Edge::Claim],
    );
}

/// The last of two holders, and only one, frees; it sees what the other did to the object.
#[test]
fn the_last_reference_is_one_holders() {
    holds(
        || {
            let o = Object {
                mark: u32s(0),
                refs: u32s(2),
            };
            let it = Arc::new((o, [Owned::new(), Owned::new()]));
            let go = |k: usize| {
                let it = it.clone();
                spawn(move || {
                    let (o, used) = &*it;
                    used[k].touch();
                    let last = o.release();
                    if last {
                        // The object is given out again: both parts are written anew.
                        (used[0].touch(), used[1].touch());
                    }
                    u32::from(last)
                })
            };
            let them = [0, 1].map(go);
            let n: u32 = them.into_iter().map(|t| t.join().unwrap()).sum();
            assert_eq!(n, 1, "freed {n} times");
        },
        &[Edge::OnlyRef, Edge::LastRef],
    );
}

/// One holder makes a third reference for another thread meanwhile: still one frees.
#[test]
fn a_reference_can_be_added_meanwhile() {
    holds(
        || {
            let o = Object {
                mark: u32s(0),
                refs: u32s(2),
            };
            let it = Arc::new((o, [Owned::new(), Owned::new(), Owned::new()]));
            let done = |it: &(Object, [Owned; 3]), k: usize| {
                it.1[k].touch();
                let last = it.0.release();
                if last {
                    it.1.iter().map(Owned::touch).for_each(|_| {});
                }
                u32::from(last)
            };
            let (a, b) = (it.clone(), it.clone());
            let first = spawn(move || {
                a.0.hold();
                let c = a.clone();
                let third = spawn(move || done(&c, 2));
                done(&a, 0) + third.join().unwrap()
            });
            let second = spawn(move || done(&b, 1));
            assert_eq!(first.join().unwrap() + second.join().unwrap(), 1);
        },
        &[Edge::LastRef],
    );
}

fn no_hints() -> Hints {
    Hints {
        top: AtomicU64::new(0),
        words: std::array::from_fn(|_| AtomicU64::new(0)),
    }
}

/// After `deposit` and `set`: the bucket is with a claimer, or its hint is found. `others`: numbers that are set, too
/// many, before.
fn deposited_is_found(others: &[usize]) {
    let hints = no_hints();
    others.iter().for_each(|&i| hints.set(i));
    let it = Arc::new((bucket(11, 7), hints));
    let (a, b) = (it.clone(), it.clone());
    // The depositor, as bucket::deposit.
    let depositor = spawn(move || {
        a.0.deposit();
        a.1.set(3);
    });
    let claimer = spawn(move || {
        let at = |i: usize| (i == 3).then_some(&b.0);
        scan(
            &b.1,
            at,
            12,
            |b| b.count(Class::Jumbo) == 1,
            |_| unreachable!(),
        )
        .is_some()
    });
    depositor.join().unwrap();
    let claimed = claimer.join().unwrap();
    assert_eq!(it.0.state.load(Relaxed), if claimed { 12 } else { DEPOT });
    let again = scan(
        &it.1,
        |i| (i == 3).then_some(&it.0),
        13,
        |_| true,
        |_| unreachable!(),
    );
    assert_eq!(
        again,
        (!claimed).then_some(3),
        "in the depot, and not to be found"
    );
}

#[test]
fn what_is_in_the_depot_is_found() {
    holds(|| deposited_is_found(&[]), &[]);
}

/// A hint of an earlier time is set while the bucket comes back.
#[test]
fn what_is_in_the_depot_is_found_over_an_old_hint() {
    holds(|| deposited_is_found(&[3]), &[Edge::SetWord]);
}

/// A neighbour in the same word, so that the claimer clears the whole word.
#[test]
fn what_is_in_the_depot_is_found_beside_an_old_hint() {
    holds(|| deposited_is_found(&[4]), &[Edge::SetTop]);
}

/// Two threads look for one: not both get it, and it does not get lost between them.
#[test]
fn what_is_in_the_depot_is_found_by_one() {
    holds(
        || {
            let it = Arc::new((bucket(DEPOT, 7), no_hints(), Owned::new()));
            it.1.set(3);
            let go = |me: u32| {
                let it = it.clone();
                spawn(move || {
                    let at = |i: usize| (i == 3).then_some(&it.0);
                    if scan(&it.1, at, me, |_| true, |_| unreachable!()).is_some() {
                        it.2.touch();
                        it.0.deposit();
                        it.1.set(3);
                    }
                })
            };
            [11, 12].map(go).into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(it.1.next(0), Some(3));
            assert!(it.2.look() > 0);
        },
        &[Edge::Deposit],
    );
}

/// G0 -> G1, G2 -> G3: a slot has one claimer, who who finds it sees it filled, and it has one user after the other.
#[test]
fn a_slot_is_claimed_by_one_and_found_whole() {
    holds(
        || {
            let key = Key {
                tag: AtomicU64::new(0),
                dev: AtomicU64::new(0),
            };
            let it = Arc::new((key, Owned::new()));
            let go = |ino: u64| {
                let it = it.clone();
                spawn(move || {
                    let won = it.0.claim(ino * 10);
                    if won {
                        it.1.touch();
                        it.0.publish(ino);
                    }
                    won
                })
            };
            let them = [100, 200].map(go);
            // Two looks: the first may come too early.
            for _ in 0..2 {
                for ino in [100, 200] {
                    if it.0.is(ino * 10, ino) {
                        assert_eq!(it.1.look(), 1, "found before it was filled");
                    }
                }
                yield_now();
            }
            let n = them.map(|t| t.join().unwrap());
            assert!(n[0] != n[1], "{n:?}");
        },
        &[Edge::Publish, Edge::Find],
    );
}

#[test]
fn a_slot_has_one_user_after_the_other() {
    holds(
        || {
            let key = Key {
                tag: AtomicU64::new(0),
                dev: AtomicU64::new(0),
            };
            let it = Arc::new((key, Owned::new()));
            let go = |ino: u64| {
                let it = it.clone();
                spawn(move || {
                    if it.0.claim(1) {
                        it.1.touch();
                        it.0.publish(ino);
                        it.1.touch();
                        it.0.release();
                    }
                })
            };
            [100, 200]
                .map(go)
                .into_iter()
                .for_each(|t| t.join().unwrap());
            assert!(it.0.claim(2));
        },
        &[Edge::Slot, Edge::Unslot],
    );
}

/// Threads that live as long as the model: init, and this process's first thread's parent is not asked.
fn living() -> [u32; 2] {
    [1, byway_sys::process::getpid()]
}

/// A slab's lock, from `owner` on: one has it at a time, and sees what the one before did.
fn locked(owner: u32) {
    let it = Arc::new((Lock(u32s(owner)), Owned::new()));
    let go = |tid: u32| {
        let it = it.clone();
        spawn(move || {
            for _ in 0..2 {
                if it.0.take(tid) {
                    it.1.touch();
                    it.0.leave();
                    return 1;
                }
                yield_now();
            }
            0
        })
    };
    let n: u32 = living()
        .map(go)
        .into_iter()
        .map(|t| t.join().unwrap())
        .sum();
    assert!(n > 0, "nobody got the lock");
    assert!(it.0.take(3) && it.1.touch() == n + 1);
}

#[test]
fn a_slab_has_one_owner() {
    holds(|| locked(0), &[Edge::Lock, Edge::Unlock]);
}

/// The same, when the owner has died: one takes it over.
#[test]
fn a_dead_owners_slab_has_one_owner() {
    holds(
        || locked(crate::layout::NOBODY),
        &[Edge::Lock, Edge::Unlock],
    );
}
