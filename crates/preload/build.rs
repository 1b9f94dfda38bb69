//! Links the preload library without start files or libraries, so that it needs nothing of the host program and its
//! constructor runs before every other one.
fn main() {
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,initfirst",
        "-Wl,-z,now",
        "-Wl,-z,nodelete",
        // One mapping of data instead of two, and no mprotect(2), in every process. Nothing is bound late.
        "-Wl,-z,norelro",
    ] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
