//! The cache's upkeep, with objects of a test's own.
//!
//! Not here: a run with a small cache (tests/explain.sh).
use super::super::ensure;
use super::*;
use std::fs::File;

/// A folder with objects and a cache, gone with the value.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("byway-upkeep-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("cache")).unwrap();
        Place(dir)
    }

    fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// The cache's file for a new object, last used `days` ago.
    fn object(&self, name: &str, days: u32) -> PathBuf {
        let object = self.0.join(name);
        fs::write(&object, name).unwrap();
        ensure(&self.cache(), &object).unwrap();
        let file = self.cache().join(name_of(&fs::metadata(&object).unwrap()));
        let then = SystemTime::now() - DAY * days;
        let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_times(times)
            .unwrap();
        file
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_knows_its_object() {
    let place = Place::new("knows");
    place.object("a", 0);
    place.object("b", 3);
    let all = files(&place.cache());
    let named: Vec<_> = all.iter().map(|k| k.object.clone().unwrap()).collect();
    let real = fs::canonicalize(&place.0).unwrap();
    assert_eq!(named, [real.join("a"), real.join("b")]);
    assert!(
        all.iter()
            .all(|k| !k.is_gone && k.says == "unable" && k.bytes >= 4096)
    );
    fs::write(place.0.join("b"), "another b").unwrap();
    fs::remove_file(place.0.join("a")).unwrap();
    assert!(files(&place.cache()).iter().all(|k| k.is_gone));
}

#[test]
fn the_longest_unused_goes_first() {
    let place = Place::new("bound");
    let kept: Vec<_> = (1..=4).map(|k| place.object(&format!("o{k}"), k)).collect();
    let one = files(&place.cache())[0].bytes;
    make_room(&place.cache(), 4 * one, 0);
    assert!(kept.iter().all(|f| f.exists()));
    make_room(&place.cache(), 3 * one, one);
    assert_eq!(
        [0, 1, 2, 3].map(|k| kept[k].exists()),
        [true, true, false, false]
    );
    make_room(&place.cache(), 0, one);
    assert!(files(&place.cache()).is_empty());
}

#[test]
fn what_every_start_needs_stays() {
    let place = Place::new("own");
    for o in own_objects() {
        ensure(&place.cache(), &o).unwrap();
    }
    let own = own_objects().len();
    place.object("other", 0);
    make_room(&place.cache(), 0, 1);
    assert_eq!(files(&place.cache()).len(), own);
}

#[test]
fn the_gone_go_after_a_day() {
    let place = Place::new("gone");
    let (new, old) = (place.object("new", 0), place.object("old", 2));
    for name in ["new", "old"] {
        fs::remove_file(place.0.join(name)).unwrap();
    }
    make_room(&place.cache(), u64::MAX, 0);
    assert_eq!((new.exists(), old.exists()), (true, false));
}

#[test]
fn clearing_leaves_what_is_not_ours() {
    let place = Place::new("clear");
    place.object("a", 0);
    fs::write(place.cache().join("other"), "").unwrap();
    assert_eq!(clear(&place.cache()).unwrap().0, 1);
    assert!(place.cache().join("other").exists() && files(&place.cache()).is_empty());
    assert!(clear(&place.0.join("nowhere")).is_err());
}
