//! Finds the system-call sites of an object and a window at each where a five-byte jump fits.
//!
//! Invariant: nothing jumps into a window but at its start: every direct branch, return address, taken address and
//! jump-table entry of the text counts as a target, and a doubt makes a target more, never one less.
//! Not here: code that is made at run time; sites outside what the unwind tables and sections describe.
use super::bridge::{self, Bridge};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
    OpKind, Register,
};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, elf};
use std::collections::HashSet;

/// One site to rewrite.
pub struct Site {
    /// Where the jump goes, and the syscall instruction itself.
    pub start: u64,
    pub syscall: u64,
    /// Instructions before the syscall in the window, and after it.
    pub insns: Vec<Instruction>,
    pub after: usize,
    /// The syscall itself lies in the window: it is executed in the stub.
    pub moved: bool,
    pub end: u64,
}

/// What a scan found.
pub struct Scan<'a> {
    pub text: &'a [u8],
    pub text_vaddr: u64,
    pub sites: Vec<Site>,
    pub left: u32,
    /// A clone-family site without a window before it.
    pub clone_left: bool,
    /// glibc's cancellable calls go through here.
    pub bridge: Option<Bridge>,
}

const INTERESTING: &[u64] = &[
    0, 1, 3, 7, 9, 10, 11, 12, 13, 16, 19, 20, 22, 23, 25, 33, 40, 46, 56, 57, 58, 59, 60, 61, 67,
    72, 105, 106, 113, 114, 117, 119, 157, 161, 231, 233, 247, 270, 271, 272, 275, 276, 278, 292,
    293, 295, 296, 307, 308, 317, 322, 327, 328, 425, 435, 436,
];
const CLONES: &[u64] = &[56, 57, 58, 435];

struct Chunk {
    insns: Vec<Instruction>,
}

/// Scans an x86-64 ELF object.
///
/// # Errors
/// A sentence that says why the object cannot be rewritten.
pub fn scan(bytes: &[u8]) -> Result<Scan<'_>, String> {
    let file = ElfFile64::<object::Endianness>::parse(bytes)
        .map_err(|e| format!("not a 64-bit ELF file: {e}"))?;
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != elf::EM_X86_64 {
        return Err("not an x86-64 program".into());
    }
    let loads: Vec<_> = file
        .elf_program_headers()
        .iter()
        .filter(|p| p.p_type(endian) == elf::PT_LOAD && p.p_flags(endian) & elf::PF_X != 0)
        .collect();
    let [load] = loads[..] else {
        return Err("not exactly one executable segment".into());
    };
    let (vaddr, off, size) = (
        load.p_vaddr(endian),
        load.p_offset(endian),
        load.p_filesz(endian),
    );
    if vaddr % 4096 != off % 4096 {
        return Err("its text is not page-congruent".into());
    }
    let pad = vaddr % 4096;
    let (text_vaddr, text_off) = (vaddr - pad, off - pad);
    let text = bytes
        .get(text_off as usize..(off + size) as usize)
        .ok_or("its text lies outside the file")?;
    let inside = |a: u64| a >= vaddr && a < vaddr + size;

    // Most objects have no site at all: no pair of bytes, no decoding.
    if !text.windows(2).any(|w| w == [0x0f, 0x05]) {
        return Ok(Scan {
            text,
            text_vaddr,
            sites: Vec::new(),
            left: 0,
            clone_left: false,
            bridge: None,
        });
    }
    let starts = boundaries(&file, &inside);
    if starts.is_empty() {
        return Err("neither sections nor unwind tables tell where its code begins".into());
    }
    let ends: Vec<u64> = starts
        .iter()
        .skip(1)
        .copied()
        .chain([vaddr + size])
        .collect();
    let mut targets = HashSet::new();
    let mut chunks = Vec::new();
    let decoder = |from: u64, to: u64| {
        let part = &text[(from - text_vaddr) as usize..(to - text_vaddr) as usize];
        Decoder::with_ip(64, part, from, DecoderOptions::NONE)
    };
    for (&from, &to) in starts.iter().zip(&ends) {
        targets.insert(from);
        let mut insns = Vec::new();
        let mut has = false;
        for i in decoder(from, to) {
            mark_targets(&i, bytes, &file, &inside, &mut targets);
            has |= i.code() == Code::Syscall;
            insns.push(i);
        }
        if has {
            chunks.push(Chunk { insns });
        }
    }
    let mut out = Scan {
        text,
        text_vaddr,
        sites: Vec::new(),
        left: 0,
        clone_left: false,
        bridge: None,
    };
    let mut info = InstructionInfoFactory::new();
    for c in &chunks {
        let mut taken = 0;
        for (k, i) in c.insns.iter().enumerate() {
            if i.code() != Code::Syscall {
                continue;
            }
            if let Some((start, pending)) = bridge::find(&c.insns, k)? {
                let all = starts.iter().zip(&ends).flat_map(|(&a, &b)| decoder(a, b));
                out.bridge = Some(bridge::reach(start, pending, all)?);
                out.left += 1;
                continue;
            }
            let nr = number(&c.insns, k, &targets, &mut info);
            // gdb and libgcc know the signal return by its bytes.
            let at = (i.ip() - text_vaddr) as usize;
            let sigreturn = at >= 7 && text[at - 7..at] == [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0];
            if nr.is_some_and(|n| !INTERESTING.contains(&n)) || sigreturn {
                out.left += 1;
                continue;
            }
            let clones = nr.is_some_and(|n| CLONES.contains(&n));
            match window(&c.insns, k, &targets, clones, taken) {
                Some(s) => {
                    taken = s.end;
                    out.sites.push(s);
                }
                None if clones => out.clone_left = true,
                None => {
                    return Err(format!(
                        "the system call at {:#x} (number {nr:?}) cannot be rewritten",
                        i.ip()
                    ));
                }
            }
        }
    }
    Ok(out)
}

/// Where code begins: executable sections, and the starts of the unwind table.
fn boundaries(file: &ElfFile64, inside: &impl Fn(u64) -> bool) -> Vec<u64> {
    let mut v = Vec::new();
    for s in file.sections() {
        let object::SectionFlags::Elf { sh_flags } = s.flags() else {
            continue;
        };
        if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0 && inside(s.address()) {
            v.push(s.address());
        }
        if s.name() == Ok(".eh_frame_hdr") {
            let (base, Ok(d)) = (s.address(), s.data()) else {
                continue;
            };
            // Version 1, a 4-byte count, a table of 4-byte pairs relative to the section (LSB, .eh_frame_hdr).
            if d.len() >= 12 && d[0] == 1 && d[2] == 0x03 && d[3] == 0x3b {
                for e in d[12..].chunks_exact(8) {
                    let rel = i32::from_le_bytes(e[..4].try_into().expect("four bytes"));
                    let a = base.wrapping_add(rel as i64 as u64);
                    if inside(a) {
                        v.push(a);
                    }
                }
            }
        }
    }
    v.sort_unstable();
    v.dedup();
    v
}

/// Every address that `i` may send control to, or whose address it takes.
fn mark_targets(
    i: &Instruction,
    bytes: &[u8],
    file: &ElfFile64,
    inside: &impl Fn(u64) -> bool,
    t: &mut HashSet<u64>,
) {
    match i.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            t.insert(i.near_branch_target());
        }
        FlowControl::Call if i.code() != Code::Syscall => {
            t.insert(i.near_branch_target());
            t.insert(i.next_ip());
        }
        FlowControl::IndirectCall => {
            t.insert(i.next_ip());
        }
        _ => {}
    }
    if i.code() != Code::Lea_r64_m || !i.is_ip_rel_memory_operand() {
        return;
    }
    let a = i.ip_rel_memory_address();
    if inside(a) {
        t.insert(a);
        return;
    }
    // Perhaps a jump table: 4-byte offsets from its own start, as long as they lead into the text.
    let Some(at) = file_offset(file, a) else {
        return;
    };
    for e in bytes.get(at..).unwrap_or(&[]).chunks_exact(4).take(2048) {
        let to =
            a.wrapping_add(i32::from_le_bytes(e.try_into().expect("four bytes")) as i64 as u64);
        if !inside(to) {
            break;
        }
        t.insert(to);
    }
}

fn file_offset(file: &ElfFile64, a: u64) -> Option<usize> {
    let endian = file.endian();
    file.elf_program_headers().iter().find_map(|p| {
        let (v, n) = (p.p_vaddr(endian), p.p_filesz(endian));
        (p.p_type(endian) == elf::PT_LOAD && a >= v && a < v + n)
            .then(|| (p.p_offset(endian) + a - v) as usize)
    })
}

/// The system call's number, if the instructions before it set it on every way here.
fn number(
    insns: &[Instruction],
    k: usize,
    targets: &HashSet<u64>,
    info: &mut InstructionInfoFactory,
) -> Option<u64> {
    if targets.contains(&insns[k].ip()) {
        return None;
    }
    for i in insns[..k].iter().rev().take(24) {
        if i.code() == Code::Mov_r32_imm32 && i.op0_register() == Register::EAX {
            return Some(u64::from(i.immediate32()));
        }
        if matches!(i.code(), Code::Xor_r32_rm32 | Code::Xor_rm32_r32)
            && i.op0_register() == Register::EAX
            && i.op1_kind() == OpKind::Register
            && i.op1_register() == Register::EAX
        {
            return Some(0);
        }
        let writes = info.info(i).used_registers().iter().any(|r| {
            r.register().full_register() == Register::RAX
                && !matches!(r.access(), OpAccess::Read | OpAccess::CondRead)
        });
        let leaves = !matches!(
            i.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        );
        if writes || leaves || targets.contains(&i.ip()) {
            return None;
        }
    }
    None
}

/// A window for the syscall at index `k`: before it if possible, else with what follows.
fn window(
    insns: &[Instruction],
    k: usize,
    targets: &HashSet<u64>,
    before_only: bool,
    taken: u64,
) -> Option<Site> {
    let sys = &insns[k];
    let plain = |i: &Instruction| i.flow_control() == FlowControl::Next && !i.is_invalid();
    for back in 0..=6 {
        if back > k {
            break;
        }
        let first = &insns[k - back];
        let inner = &insns[k - back..=k];
        let clear = inner[1..].iter().all(|i| !targets.contains(&i.ip()))
            && inner[..back].iter().all(plain);
        if !clear || first.ip() < taken {
            break;
        }
        if sys.ip() - first.ip() >= 5 {
            return Some(Site {
                start: first.ip(),
                syscall: sys.ip(),
                insns: inner[..back].to_vec(),
                after: 0,
                moved: false,
                end: sys.next_ip(),
            });
        }
    }
    if before_only {
        return None;
    }
    for back in 0..=4 {
        if back > k {
            break;
        }
        let first = &insns[k - back];
        let clear = insns[k - back..=k][1..]
            .iter()
            .all(|i| !targets.contains(&i.ip()))
            && insns[k - back..k].iter().all(plain);
        if !clear || first.ip() < taken {
            break;
        }
        let mut list = insns[k - back..k].to_vec();
        let mut end = sys.next_ip();
        if end - first.ip() >= 5 {
            return Some(Site {
                start: first.ip(),
                syscall: sys.ip(),
                insns: list,
                after: 0,
                moved: true,
                end,
            });
        }
        for (n, i) in insns[k + 1..].iter().take(4).enumerate() {
            if end - first.ip() >= 5 {
                break;
            }
            let relocatable = plain(i) || i.flow_control() == FlowControl::ConditionalBranch;
            if targets.contains(&i.ip()) || !relocatable {
                break;
            }
            list.push(*i);
            end = i.next_ip();
            if end - first.ip() >= 5 {
                return Some(Site {
                    start: first.ip(),
                    syscall: sys.ip(),
                    insns: list,
                    after: n + 1,
                    moved: true,
                    end,
                });
            }
        }
    }
    None
}
