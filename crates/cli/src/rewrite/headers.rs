//! What an object's own headers say: segments, sections, notes, the dynamic table.
//!
//! Invariant: nothing is read outside the file, whatever a header says.
//! Not here: where functions lie (functions.rs).
//! Source: elf(5); System V gABI, chapters 4 and 5.
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, SectionFlags, elf};

pub type Elf<'a> = ElfFile64<'a, object::Endianness>;

/// Each loaded segment: its address, where in the file it lies and how many bytes it has there.
pub fn segments<'a>(file: &'a Elf) -> impl Iterator<Item = (u64, (u64, u64))> + 'a {
    let endian = file.endian();
    let loaded = file.elf_program_headers().iter();
    loaded
        .filter(move |p| p.p_type(endian) == elf::PT_LOAD)
        .map(move |p| {
            let place = (p.p_offset(endian), p.p_filesz(endian));
            (p.p_vaddr(endian), place)
        })
}

/// An executable segment.
pub struct Segment {
    pub address: u64,
    pub offset: u64,
    /// Its bytes in the file.
    pub size: u64,
    /// It can be written, or is longer in memory than in the file.
    pub changes: bool,
}

impl Segment {
    pub fn end(&self) -> u64 {
        self.address + self.size
    }

    /// The first page, and behind the last one.
    pub fn pages(&self) -> (u64, u64) {
        (self.address & !4095, self.end().next_multiple_of(4096))
    }
}

/// The executable segments, by address.
///
/// # Errors
/// A sentence: they lie where no program's do.
pub fn executable(file: &Elf) -> Result<Vec<Segment>, String> {
    /// The end of a program's addresses.
    const ADDRESSES: u64 = 1 << 47;
    let endian = file.endian();
    let mut all = Vec::new();
    for p in file.elf_program_headers() {
        if p.p_type(endian) != elf::PT_LOAD || p.p_flags(endian) & elf::PF_X == 0 {
            continue;
        }
        let s = Segment {
            address: p.p_vaddr(endian),
            offset: p.p_offset(endian),
            size: p.p_filesz(endian),
            changes: p.p_flags(endian) & elf::PF_W != 0 || p.p_memsz(endian) != p.p_filesz(endian),
        };
        if s.address
            .checked_add(s.size)
            .is_none_or(|end| end > ADDRESSES)
        {
            return Err("its text lies where no program's does".into());
        }
        if s.address % 4096 != s.offset % 4096 {
            return Err("its text is not page-congruent".into());
        }
        all.push(s);
    }
    all.sort_by_key(|s| s.address);
    if all.windows(2).any(|w| w[0].pages().1 > w[1].pages().0) {
        return Err("its executable segments overlap".into());
    }
    Ok(all)
}

/// Where in the file the byte at `address` lies, and how many follow it there.
pub fn file_range(file: &Elf, address: u64) -> Option<(usize, usize)> {
    segments(file).find_map(|(at, (offset, n))| {
        let within = address.checked_sub(at).filter(|&d| d < n)?;
        Some(((offset + within) as usize, (n - within) as usize))
    })
}

/// The bytes of the file from `address` to the end of its segment.
pub fn bytes_at<'a>(file: &Elf, bytes: &'a [u8], address: u64) -> Option<&'a [u8]> {
    let (at, n) = file_range(file, address)?;
    bytes.get(at..)?.get(..n)
}

pub fn bytes_of(bytes: &[u8], off: u64, n: u64) -> Option<&[u8]> {
    bytes.get(off as usize..off.checked_add(n)? as usize)
}

/// A word of the dynamic table: its tag and its value.
fn dynamic_words(file: &Elf, bytes: &[u8]) -> Result<Vec<(u32, u64)>, String> {
    let endian = file.endian();
    let mut all = Vec::new();
    for p in file.elf_program_headers() {
        let table = p
            .dynamic(endian, bytes)
            .map_err(|e| format!("its dynamic table cannot be read: {e}"))?;
        let words = table.into_iter().flatten();
        all.extend(words.map(|d| (d.d_tag(endian) as u32, d.d_val(endian))));
    }
    Ok(all)
}

/// The string that the dynamic table `words` means by `value`.
fn string(file: &Elf, bytes: &[u8], words: &[(u32, u64)], value: u64) -> Option<String> {
    let strings = words.iter().rfind(|w| w.0 == elf::DT_STRTAB)?.1;
    let b = bytes_at(file, bytes, strings.checked_add(value)?)?;
    let v: Vec<u8> = b
        .iter()
        .take(255)
        .take_while(|&&c| c != 0)
        .copied()
        .collect();
    Some(String::from_utf8_lossy(&v).into_owned())
}

/// The object's own name, and whether the loader relocates its text.
pub fn dynamic(file: &Elf, bytes: &[u8]) -> Result<(String, bool), String> {
    let words = dynamic_words(file, bytes)?;
    let relocates = |&(tag, value): &(u32, u64)| {
        tag == elf::DT_TEXTREL || tag == elf::DT_FLAGS && value & u64::from(elf::DF_TEXTREL) != 0
    };
    let name = words.iter().rfind(|w| w.0 == elf::DT_SONAME);
    let name = name.and_then(|w| string(file, bytes, &words, w.1));
    Ok((name.unwrap_or_default(), words.iter().any(relocates)))
}

/// The libraries that the object names, in order. One whose name cannot be read is named by nothing.
pub fn needed(file: &Elf, bytes: &[u8]) -> Vec<String> {
    let words = dynamic_words(file, bytes).unwrap_or_default();
    let all = words.iter().filter(|w| w.0 == elf::DT_NEEDED);
    all.map(|w| string(file, bytes, &words, w.1).unwrap_or_default())
        .collect()
}

/// The sections that hold code.
pub fn sections(file: &Elf) -> Vec<(u64, u64)> {
    let holds_code = |flags| matches!(flags, SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0);
    let code = file.sections().filter(|s| holds_code(s.flags()));
    code.map(|s| (s.address(), s.address() + s.size()))
        .collect()
}

/// The sections that the linker fills with stubs for calls of other objects.
pub fn stubs(file: &Elf) -> Vec<(u64, u64)> {
    let is_stubs = |n: &str| n == ".plt" || n.starts_with(".plt.") || n == ".iplt";
    let stubs = file.sections().filter(|s| s.name().is_ok_and(is_stubs));
    stubs
        .map(|s| (s.address(), s.address() + s.size()))
        .collect()
}

/// Go's own mark. Its functions have other calling conventions, and make system calls with a number that they were given.
pub fn is_go(file: &Elf, bytes: &[u8]) -> bool {
    note(file, bytes, b"Go", 4).is_some() || file.section_by_name(".gopclntab").is_some()
}

/// The contents of a note in one of the object's segments.
pub fn note<'a>(file: &Elf, bytes: &'a [u8], name: &[u8], kind: u32) -> Option<&'a [u8]> {
    let endian = file.endian();
    for p in file.elf_program_headers() {
        let Ok(Some(mut notes)) = p.notes(endian, bytes) else {
            continue;
        };
        while let Ok(Some(n)) = notes.next() {
            if n.name() == name && n.n_type(endian) == kind {
                return Some(n.desc());
            }
        }
    }
    None
}
