//! What an object is to a run: clean, rewritten, or a reason why a process with it takes no part.
//!
//! Invariant: an object that cannot be read, scanned or laid out is never rewritten in part.
//! Not here: finding the sites (scan.rs), the file that is made (image.rs), where that file is (cache.rs).
use super::image;
use super::scan::{Scan, scan};

/// What an object is to us.
pub enum Object {
    /// No site of interest: its cache file.
    Clean(Vec<u8>),
    /// The rewritten text, as a cache file, and how many sites it has.
    Shadow(Vec<u8>, usize),
    /// A site of interest cannot be rewritten, or the object is of another kind.
    Unable(String),
}

/// Says what the object with these bytes is.
pub fn verdict(bytes: &[u8]) -> Object {
    scan(bytes).map_or_else(Object::Unable, |s| object(&s))
}

/// What becomes of a scanned object.
pub fn object(s: &Scan) -> Object {
    if s.sites.is_empty() && s.bridge.is_none() {
        return Object::Clean(image::clean(s));
    }
    image::build(s).map_or_else(Object::Unable, |v| Object::Shadow(v, s.sites.len()))
}
