//! The registry: a domain remembers that it has had a channel.
mod common;
use byway_mem::registry;

#[test]
fn a_domain_remembers_its_first_channel() {
    let d = common::domain(4);
    assert!(!registry::had_any(&d));
    let i = registry::claim(d, 1, 2).unwrap();
    // Before it can be found: whoever finds it must see this too.
    assert!(registry::had_any(&d));
    registry::publish(d, i, 2);
    assert_eq!(registry::find(d, 1, 2), Some(i));
    registry::release(d, i);
    assert_eq!(registry::find(d, 1, 2), None);
    assert!(registry::had_any(&d));
}

#[test]
fn each_of_many_objects_has_its_slot() {
    let d = common::domain(4);
    // More than the first slots have room for; and slots that have had another object before.
    for round in 0..3 {
        let inodes = || (1..1500u64).map(move |n| n * 7 + round);
        let slots: Vec<_> = inodes()
            .map(|ino| {
                assert_eq!(registry::find(d, 1, ino), None);
                let i = registry::claim(d, 1, ino).unwrap();
                // It cannot be found before it has been filled.
                assert_eq!(registry::find(d, 1, ino), None);
                registry::publish(d, i, ino);
                i
            })
            .collect();
        for (ino, i) in inodes().zip(slots) {
            assert_eq!(registry::find(d, 1, ino), Some(i));
            assert_eq!(registry::find(d, 2, ino), None);
            registry::release(d, i);
            assert_eq!(registry::find(d, 1, ino), None);
        }
    }
}
