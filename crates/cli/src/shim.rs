//! The program behind a script that only stands for it: one whose last act is `exec PROGRAM "$@"`, and the shims of
//! pyenv and its like.
//!
//! Invariant: nothing is run. A script that is not wholly understood stands for nothing.
//! Not here: whether that program can take part (program.rs).
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Version managers, and the language whose versions each of them manages.
const MANAGERS: [(&str, &str); 6] = [
    ("pyenv", "python"),
    ("rbenv", "ruby"),
    ("nodenv", "node"),
    ("plenv", "perl"),
    ("goenv", "go"),
    ("jenv", "java"),
];

/// The program that the script `bytes` at `path` stands for.
pub fn target(path: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines().map(str::trim);
    let last = lines.rfind(|l| !l.is_empty() && !l.starts_with('#'))?;
    let words: Vec<_> = last.strip_prefix("exec ")?.split_whitespace().collect();
    let program = Path::new(words.first()?.trim_matches(['"', '\'']));
    if !program.is_absolute() || program.to_string_lossy().contains(['$', '`', '*']) {
        return None;
    }
    match words[1..] {
        [r#""$@""#] => Some(program.into()),
        ["exec", _, r#""$@""#] => managed(path, program),
        _ => None,
    }
}

/// The program behind the shim at `path` of the version manager `manager`, which is ROOT/libexec/NAME or ROOT/bin/NAME.
fn managed(path: &Path, manager: &Path) -> Option<PathBuf> {
    let name = manager.file_name()?.to_str()?;
    let (_, language) = MANAGERS.iter().find(|m| m.0 == name)?;
    let root = manager.parent()?.parent()?;
    let program = path.file_name()?;
    let chosen = std::env::var(format!("{}_VERSION", name.to_uppercase()));
    let versions = match chosen {
        Ok(v) if !v.is_empty() => v,
        _ => in_files(&format!(".{language}-version"), root)?,
    };
    let mut versions = versions.split([':', ' ', '\n']).filter(|v| !v.is_empty());
    versions.find_map(|v| match v {
        "system" => in_path_but(path.parent()?, program),
        v => Some(root.join("versions").join(v).join("bin").join(program)).filter(|p| p.exists()),
    })
}

/// What the nearest file `name` says, from this folder upwards; else the manager's own.
fn in_files(name: &str, root: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let near = here.ancestors().map(|d| d.join(name));
    let mut all = near.chain([root.join("version")]);
    all.find_map(|f| fs::read_to_string(f).ok())
        .or_else(|| Some("system".into()))
}

fn in_path_but(shims: &Path, program: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all: Vec<_> = std::env::split_paths(&path).collect();
    let mut found = all.iter().filter(|d| *d != shims).map(|d| d.join(program));
    found.find(|p| p.is_file() && !program.as_bytes().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_only_starts_a_program() {
        let of = |text: &str| target(Path::new("/shims/x"), text.as_bytes());
        assert_eq!(
            of("#!/bin/sh\nexec /usr/lib/x/x \"$@\"\n\n"),
            Some("/usr/lib/x/x".into())
        );
        assert_eq!(of("#!/bin/sh\nexec '/opt/x' \"$@\" # no\n"), None);
        for other in [
            "#!/bin/sh\necho x\n",
            "#!/bin/sh\nexec $HOME/x \"$@\"\n",
            "#!/bin/sh\nexec x \"$@\"\n",
            "#!/bin/sh\nexec /bin/x --more \"$@\"\n",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_shim_of_a_version_manager() {
        let root = std::env::temp_dir().join(format!("byway-shim-{}", std::process::id()));
        let bin = root.join("versions/3.1/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("ruby"), "").unwrap();
        let shim = root.join("shims/ruby");
        let text = format!(
            "#!/bin/sh\nexec \"{}/libexec/rbenv\" exec \"$program\" \"$@\"\n",
            root.display()
        );
        fs::write(root.join("version"), "9.9\n3.1\n").unwrap();
        assert_eq!(target(&shim, text.as_bytes()), Some(bin.join("ruby")));
        fs::write(root.join("version"), "9.9\n").unwrap();
        assert_eq!(target(&shim, text.as_bytes()), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
