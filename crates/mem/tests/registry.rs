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
