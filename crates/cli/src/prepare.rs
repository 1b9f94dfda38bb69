//! Makes all that a run needs before its command starts: the domain, the cache folder, the preload library.
//!
//! Invariant: where a part cannot be made nothing is carried, and a sentence says why and what to try.
//! Not here: each part by itself (domain.rs, rewrite/, library.rs), the start (run.rs).
use crate::domain::Run;
use crate::library::{self, Named};
use crate::rewrite;
use crate::settings::{Settings, environment};
use std::path::{Path, PathBuf};

/// The cache's folder, found or made.
///
/// # Errors
/// A sentence: what is wrong with it, and what to try.
pub fn usable_cache() -> Result<PathBuf, String> {
    let cache = environment::cache_folder();
    rewrite::folder(&cache).map_err(|e| bad_cache(&cache, &e))
}

fn bad_cache(cache: &Path, e: &std::io::Error) -> String {
    format!(
        "the cache {}: {e}; set BYWAY_CACHE to a folder of yours that nobody else can write",
        cache.display()
    )
}

/// Makes all that a run needs: the domain, the cache folder, the preload library.
///
/// # Errors
/// A sentence: why nothing can be carried, and what to try.
pub fn prepare(settings: &Settings) -> Result<(Run, PathBuf, Named), String> {
    if byway_sys::process::address_space_is_limited() {
        return Err(
            "its address space is limited (ulimit -v): a domain would be most of it".into(),
        );
    }
    let library = library::find()?;
    let cache = usable_cache()?;
    for path in rewrite::own_objects() {
        let found = rewrite::ensure(&cache, &path).map_err(|e| bad_cache(&cache, &e))?;
        if let Some(why) = found {
            return Err(format!("{} cannot be rewritten: {why}", path.display()));
        }
    }
    let run = Run::obtain(&cache, settings)?;
    let library = Named::of(library, run.path())?;
    Ok((run, cache, library))
}
