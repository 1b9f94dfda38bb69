//! Where an object says that its functions lie.
//!
//! Invariant: a function is what the object itself delimits: an entry of its unwind table (an FDE of `.eh_frame`), or a
//! symbol of a function with a size. Bytes outside every function are data.
//! Not here: what the bytes of a function mean (flow.rs).
//! Source: LSB 5.0 Core, 10.6 (`.eh_frame`, `.eh_frame_hdr`); Itanium C++ ABI, exception tables (landing pads).
use super::headers::{Elf, bytes_at};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, Reader, UnwindSection};
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSection, ObjectSymbol, SymbolFlags, elf};

/// One function: its bytes are [start, end).
#[derive(Clone, Copy)]
pub struct Function {
    pub start: u64,
    pub end: u64,
    /// The return from a signal handler. Its FDE begins one byte before its code, for unwinders.
    pub trampoline: bool,
}

/// The functions of one object, by their starts.
pub struct Functions {
    list: Vec<Function>,
    /// Of each function, the largest end up to it: where a search for a byte may stop.
    reach: Vec<u64>,
    /// Where the unwinder continues after an exception: no instruction leads there.
    pads: Vec<u64>,
}

impl Functions {
    /// All that `file` delimits, each within one of `texts`.
    ///
    /// # Errors
    /// A sentence: a table cannot be read.
    pub fn of(file: &Elf, bytes: &[u8], texts: &[(u64, u64)]) -> Result<Functions, String> {
        let (mut list, mut pads) = (Vec::new(), Vec::new());
        unwind_entries(file, bytes, &mut list, &mut pads)
            .map_err(|e| format!("its unwind table cannot be read: {e}"))?;
        for s in file.symbols().chain(file.dynamic_symbols()) {
            let SymbolFlags::Elf { st_info, .. } = s.flags() else {
                continue;
            };
            if matches!(st_info & 15, elf::STT_FUNC | elf::STT_GNU_IFUNC) && s.size() > 0 {
                list.push(Function {
                    start: s.address(),
                    end: s.address().saturating_add(s.size()),
                    trampoline: false,
                });
            }
        }
        list.retain(|f| {
            let within = |&(low, high): &(u64, u64)| f.start >= low && f.end <= high;
            f.start < f.end && texts.iter().any(within)
        });
        list.sort_unstable_by_key(|f| (f.start, f.end, !f.trampoline));
        list.dedup_by_key(|f| (f.start, f.end));
        pads.sort_unstable();
        pads.dedup();
        let mut most = 0;
        let reach = list
            .iter()
            .map(|f| {
                most = f.end.max(most);
                most
            })
            .collect();
        Ok(Functions { list, reach, pads })
    }

    /// The functions in which all of [from, to) lies.
    pub fn around(&self, from: u64, to: u64) -> impl Iterator<Item = Function> {
        let n = self.list.partition_point(|f| f.start <= from);
        (0..n)
            .rev()
            .take_while(move |&k| self.reach[k] > from)
            .map(|k| self.list[k])
            .filter(move |f| f.end >= to)
    }

    /// The function that ends last before `at`, and the next function's start: `at` lies between them.
    pub fn before(&self, at: u64) -> Option<(Function, Option<u64>)> {
        let n = self.list.partition_point(|f| f.start <= at);
        let f = self.list[..n].iter().max_by_key(|f| f.end)?;
        Some((*f, self.list.get(n).map(|f| f.start)))
    }

    /// Whether a function begins at `at`.
    pub fn begins(&self, at: u64) -> bool {
        let n = self.list.partition_point(|f| f.start < at);
        self.list.get(n).is_some_and(|f| f.start == at)
    }

    /// The starts in [from, to).
    pub fn starts(&self, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let n = self.list.partition_point(|f| f.start < from);
        let starts = self.list[n..].iter().map(|f| f.start);
        starts.take_while(move |&s| s < to)
    }

    /// The landing pads in [from, to).
    pub fn pads(&self, from: u64, to: u64) -> &[u64] {
        let at = |a| self.pads.partition_point(|&p| p < a);
        &self.pads[at(from)..at(to)]
    }
}

/// Where `.eh_frame` lies: as its section tells, else from where the unwinder's own segment says it begins.
fn eh_frame(file: &Elf, bytes: &[u8]) -> Option<(u64, usize)> {
    if let Some(s) = file.section_by_name(".eh_frame") {
        return Some((s.address(), s.size() as usize));
    }
    let endian = file.endian();
    let header = file
        .elf_program_headers()
        .iter()
        .find(|p| p.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
    let at = header.p_vaddr(endian);
    // LSB: version 1; the pointer to .eh_frame is 4 bytes, relative to itself.
    let [1, 0x1b, _, _, a, b, c, d, ..] = bytes_at(file, bytes, at)? else {
        return None;
    };
    let distance = i32::from_le_bytes([*a, *b, *c, *d]);
    Some(((at + 4).wrapping_add_signed(distance.into()), usize::MAX))
}

fn unwind_entries(
    file: &Elf,
    bytes: &[u8],
    list: &mut Vec<Function>,
    pads: &mut Vec<u64>,
) -> gimli::Result<()> {
    let Some((at, size)) = eh_frame(file, bytes) else {
        return Ok(());
    };
    let table = bytes_at(file, bytes, at).unwrap_or(&[]);
    let table = &table[..table.len().min(size)];
    let frames = EhFrame::new(table, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(at);
    let mut entries = frames.entries(&bases);
    let mut last = None;
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        // One CIE serves many FDEs that follow one another.
        let fde = partial.parse(|_, bases, offset| match &last {
            Some((of, cie)) if *of == offset => Ok(Clone::clone(cie)),
            _ => {
                let cie = frames.cie_from_offset(bases, offset)?;
                last = Some((offset, cie.clone()));
                Ok(cie)
            }
        })?;
        let start = fde.initial_address();
        list.push(Function {
            start,
            end: start.saturating_add(fde.len()),
            trampoline: fde.is_signal_trampoline(),
        });
        if let Some(gimli::Pointer::Direct(a)) = fde.lsda()
            && a != 0
            && let Some(table) = bytes_at(file, bytes, a)
        {
            // What cannot be read adds no pad: code that only a pad leads to then stays without proof.
            let _ = landing_pads(EndianSlice::new(table, LittleEndian), start, pads);
        }
    }
    Ok(())
}

/// Reads the call sites of one function's exception table.
fn landing_pads(
    mut r: EndianSlice<LittleEndian>,
    function: u64,
    pads: &mut Vec<u64>,
) -> gimli::Result<()> {
    const OMITTED: u8 = 0xff;
    let value = |r: &mut EndianSlice<LittleEndian>, encoding: u8| match encoding {
        1 => r.read_uleb128(),
        2 => r.read_u16().map(u64::from),
        3 => r.read_u32().map(u64::from),
        4 => r.read_u64(),
        _ => Err(gimli::Error::UnknownPointerEncoding(gimli::DwEhPe(
            encoding,
        ))),
    };
    let base = match r.read_u8()? {
        OMITTED => function,
        encoding => value(&mut r, encoding)?,
    };
    if r.read_u8()? != OMITTED {
        r.read_uleb128()?;
    }
    let encoding = r.read_u8()?;
    let length = r.read_uleb128()? as usize;
    let mut sites = r.split(length)?;
    while !sites.is_empty() {
        let _call = (value(&mut sites, encoding)?, value(&mut sites, encoding)?);
        let pad = value(&mut sites, encoding)?;
        sites.read_uleb128()?;
        if pad != 0 {
            pads.push(base.wrapping_add(pad));
        }
    }
    Ok(())
}
