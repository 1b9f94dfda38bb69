//! Links the preload library without start files or libraries, so that it needs nothing of the host program and its
//! constructor runs before every other one.
fn main() {
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,initfirst",
        "-Wl,-z,now",
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
