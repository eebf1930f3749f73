//! Compiled BPF objects: what of an ELF file (as `clang -target bpf` writes it) a program needs.
//!
//! Owns the parsing: one program section, the maps it uses, where it uses them, the licence. Pure.
//! Follows the ELF-64 object format (System V ABI, chapter 4) and the kernel's
//! `Documentation/bpf/llvm_reloc.rst`. Understands little-endian objects of one program without calls
//! between functions and without BTF, which is what `ebpf/` holds.

use super::Map;
use crate::{Error, Result};

/// Bytes of an instruction.
pub(super) const INSTRUCTION: usize = 8;
/// Bytes of a section header, of a symbol, of a relocation without addend, of our map definition.
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const RELOCATION: usize = 16;
const DEFINITION: usize = 20;
/// `e_machine` of BPF.
const MACHINE_BPF: u16 = 247;
/// Relocation of the 64-bit value of a two-instruction load.
const R_BPF_64_64: u32 = 1;
/// Opcode of such a load.
const LOAD_64: u8 = 0x18;
/// Source register that makes its value the descriptor of a map.
const PSEUDO_MAP_FD: u8 = 1;
/// Section of the maps' definitions, and the licence's.
const MAPS: &str = "maps";
const LICENSE: &str = "license";

/// A map as the object wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// Its name in the source.
    pub name: String,
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Most entries.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// An object with one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Instructions, each of 8 bytes.
    pub code: Vec<u8>,
    /// Licence, without the closing zero.
    pub license: String,
    /// Maps in the order of their definitions.
    pub maps: Vec<MapSpec>,
    /// Instruction numbers of loads of maps, and which map.
    pub uses: Vec<(usize, usize)>,
}

struct Section<'e> {
    name: &'e str,
    /// Number of the section it is about, for relocations.
    info: usize,
    body: &'e [u8],
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

fn u16_at(b: &[u8], at: usize) -> Option<usize> {
    let bytes = *b.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_le_bytes(bytes)))
}

fn u64_at(b: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*b.get(at..)?.first_chunk()?)).ok()
}

/// The zero-ended text at `at`.
fn text_at(b: &[u8], at: usize) -> Option<&str> {
    let rest = b.get(at..)?;
    let end = rest.iter().position(|&c| c == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn part(elf: &[u8], from: usize, len: usize) -> Option<&[u8]> {
    elf.get(from..from.checked_add(len)?)
}

fn sections(elf: &[u8]) -> Option<Vec<Section<'_>>> {
    let (offset, count, names) = (u64_at(elf, 40)?, u16_at(elf, 60)?, u16_at(elf, 62)?);
    let header = |n: usize| part(elf, offset.checked_add(n * SECTION)?, SECTION);
    let body = |n: usize| {
        let h = header(n)?;
        part(elf, u64_at(h, 24)?, u64_at(h, 32)?)
    };
    let names = body(names)?;
    (0..count)
        .map(|n| {
            let h = header(n)?;
            Some(Section {
                name: text_at(names, u32_at(h, 0)? as usize)?,
                info: u32_at(h, 44)? as usize,
                body: body(n)?,
            })
        })
        .collect()
}

/// The symbols of section `of`: number, name, place in the section.
fn symbols<'e>(table: &'e [u8], names: &'e [u8], of: usize) -> Vec<(usize, &'e str, usize)> {
    let parse = |(number, s): (usize, &'e [u8])| {
        let name = text_at(names, u32_at(s, 0)? as usize)?;
        (u16_at(s, 6)? == of).then_some((number, name, u64_at(s, 8)?))
    };
    let all = table.chunks_exact(SYMBOL).enumerate();
    all.filter_map(parse).collect()
}

impl Object {
    /// Reads the program of section `program` with its maps.
    ///
    /// # Errors
    /// Says what is missing or broken.
    pub fn parse(elf: &[u8], program: &str) -> Result<Object> {
        let broken = |why: &str| Error::other("read", "the BPF object", why);
        if !elf.starts_with(b"\x7fELF\x02\x01") || u16_at(elf, 18) != Some(MACHINE_BPF.into()) {
            return Err(broken("not a little-endian ELF object for BPF"));
        }
        let sections = sections(elf).ok_or_else(|| broken("its section headers are broken"))?;
        let place = |name: &str| sections.iter().position(|s| s.name == name);
        let body = |name: &str| place(name).map(|n| sections[n].body);
        let at = place(program).ok_or_else(|| broken("it has no such program"))?;
        let code = sections[at].body.to_vec();
        if code.is_empty() || !code.len().is_multiple_of(INSTRUCTION) {
            return Err(broken("its program is not whole instructions"));
        }
        let license = body(LICENSE).and_then(|b| text_at(b, 0));
        let license = license.ok_or_else(|| broken("it names no licence"))?;
        let table = body(".symtab").unwrap_or_default();
        let names = body(".strtab").unwrap_or_default();
        let definitions = body(MAPS).unwrap_or_default();
        let mut named = symbols(table, names, place(MAPS).unwrap_or(usize::MAX));
        named.sort_by_key(|s| s.2);
        let maps = named.iter().map(|s| definition(definitions, s.1, s.2));
        let maps = maps.collect::<Option<Vec<_>>>();
        let relocations = |s: &&Section<'_>| s.info == at && s.name.starts_with(".rel");
        let relocations = sections.iter().find(relocations).map(|s| s.body);
        let uses = relocations
            .unwrap_or_default()
            .chunks_exact(RELOCATION)
            .map(|r| map_use(r, &code, &named));
        Ok(Object {
            license: license.to_owned(),
            maps: maps.ok_or_else(|| broken("a map's definition is cut off"))?,
            uses: uses
                .collect::<Option<_>>()
                .ok_or_else(|| broken("it refers to something that is not one of its maps"))?,
            code,
        })
    }

    /// The map of this name, to be changed before it is made.
    pub fn map_mut(&mut self, name: &str) -> Option<&mut MapSpec> {
        self.maps.iter_mut().find(|m| m.name == name)
    }

    /// The instructions with the maps' descriptors in their places; `maps` in the order of `self.maps`.
    pub(super) fn linked(&self, maps: &[Map]) -> Vec<u8> {
        let mut code = self.code.clone();
        for (at, map) in &self.uses {
            let load = code.get_mut(at * INSTRUCTION..).unwrap_or_default();
            let Some((load, fd)) = load.first_chunk_mut::<8>().zip(maps.get(*map)) else {
                continue;
            };
            load[1] = load[1] & 0x0f | PSEUDO_MAP_FD << 4;
            load[4..].copy_from_slice(&fd.raw().to_le_bytes());
        }
        code
    }
}

fn definition(section: &[u8], name: &str, at: usize) -> Option<MapSpec> {
    let d = part(section, at, DEFINITION)?;
    Some(MapSpec {
        name: name.to_owned(),
        kind: u32_at(d, 0)?,
        key_size: u32_at(d, 4)?,
        value_size: u32_at(d, 8)?,
        max_entries: u32_at(d, 12)?,
        flags: u32_at(d, 16)?,
    })
}

/// Which instruction a relocation is for, and which map goes there.
fn map_use(r: &[u8], code: &[u8], maps: &[(usize, &str, usize)]) -> Option<(usize, usize)> {
    let (offset, kind, symbol) = (u64_at(r, 0)?, u32_at(r, 8)?, u32_at(r, 12)? as usize);
    let map = maps.iter().position(|m| m.0 == symbol)?;
    let is_load = part(code, offset, 2 * INSTRUCTION)?.first() == Some(&LOAD_64);
    let good = kind == R_BPF_64_64 && is_load && offset.is_multiple_of(INSTRUCTION);
    good.then_some((offset / INSTRUCTION, map))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELF: &[u8] = include_bytes!("../../../../ebpf/parshall_xdp.o");

    #[test]
    fn the_router_s_own_program_is_read() {
        let o = Object::parse(ELF, "xdp").unwrap();
        assert_eq!(o.license, "Apache-2.0");
        let names: Vec<_> = o.maps.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["settings", "sockets"]);
        let settings = &o.maps[0];
        assert_eq!((settings.kind, settings.value_size), (2, 8));
        assert_eq!((o.maps[1].kind, o.maps[1].key_size), (17, 4));
        assert_eq!(o.uses.iter().map(|u| u.1).collect::<Vec<_>>(), [0, 1]);
        assert!(o.uses.iter().all(|u| o.code[u.0 * 8] == LOAD_64));
        // It ends with an instruction and begins with one.
        assert!(o.code.len() > 100 && o.code.len().is_multiple_of(8));
    }

    #[test]
    fn a_broken_object_is_an_error_and_never_a_panic() {
        for len in 0..ELF.len() {
            let _ = Object::parse(&ELF[..len], "xdp");
        }
        let mut bytes = ELF.to_vec();
        for at in 0..bytes.len() {
            for bit in [0x01, 0x80, 0xff] {
                bytes[at] ^= bit;
                let _ = Object::parse(&bytes, "xdp");
                bytes[at] ^= bit;
            }
        }
        let e = Object::parse(ELF, "nosuch").unwrap_err().to_string();
        assert!(e.contains("no such program"), "{e}");
        let e = Object::parse(b"text", "xdp").unwrap_err().to_string();
        assert!(e.contains("not a little-endian ELF object"), "{e}");
    }
}
