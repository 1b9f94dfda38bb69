//! The shared library's name for the loader: programs linked to it ask for this interface, not for any file of the name.
fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbyway.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
