//! Builds the preload library, which the program carries within itself (src/library.rs), and gives the program its place
//! and its number.
//!
//! Invariant: program and library are of one source: a change in any of the library's crates builds both anew.
//! Not here: how the library is linked (crates/preload/build.rs), where the program unpacks it (src/library.rs).
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's crate, and those that it is made of.
const CRATES: [&str; 4] = ["preload", "pipe", "mem", "sys"];

fn main() {
    let crates = Path::new("..");
    for of in CRATES {
        println!("cargo::rerun-if-changed=../{of}");
    }
    // Its profiles.
    println!("cargo::rerun-if-changed=../../Cargo.toml");
    let library = built(&crates.join("preload/Cargo.toml"));
    let bytes = fs::read(&library).unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    // Two versions of it must not have one name; nobody chooses the bytes to make them alike.
    let mut number = DefaultHasher::new();
    number.write(&bytes);
    println!("cargo::rustc-env=BYWAY_BUILD={}", build());
    println!("cargo::rustc-env=BYWAY_LIBRARY={}", library.display());
    println!(
        "cargo::rustc-env=BYWAY_LIBRARY_NUMBER={:016x}",
        number.finish()
    );
}

/// How the program is built: profile, target, compiler.
fn build() -> String {
    let variable = |name| env::var(name).unwrap_or_default();
    let compiler = Command::new(variable("RUSTC")).arg("--version").output();
    let compiler = compiler.map_or(vec![], |o| o.stdout);
    let compiler = String::from_utf8_lossy(&compiler);
    let (profile, target) = (variable("PROFILE"), variable("TARGET"));
    format!("{profile}, {target}, {}", compiler.trim())
}

/// Builds the crate of `manifest`, and returns where its library is.
///
/// Always as a release: a debug build of it wants the unwinder, which it does not have. In a folder of its own, for the
/// Cargo that called this has the usual one locked; beside those of all profiles, which have it from there.
fn built(manifest: &Path) -> PathBuf {
    let variable = |name| env::var_os(name).unwrap_or_else(|| panic!("Cargo sets {name}"));
    // OUT_DIR is <profile>/build/<this crate>/out.
    let out = PathBuf::from(variable("OUT_DIR"));
    let folder = out.ancestors().nth(4).unwrap_or(&out).join("library");
    let target = variable("TARGET");
    let done = Command::new(variable("CARGO"))
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&folder)
        .arg("--target")
        .arg(&target)
        // Clippy's, which would take the compiler's place here too.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CLIPPY_ARGS")
        .status();
    match done {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("the preload library was not built: cargo ended with {status}"),
        Err(e) => panic!("cargo, to build the preload library: {e}"),
    }
    folder.join(target).join("release/libbyway_preload.so")
}
