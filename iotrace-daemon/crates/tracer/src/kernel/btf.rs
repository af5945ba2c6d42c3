//! Where the kernel keeps its fields: a reader for the kernel's own type information (BTF).
//!
//! aya reads BTF as well, but gives no field offsets, and Rust has no relocations for them. The format is that of
//! the kernel's `Documentation/bpf/btf.rst`. Pure: bytes in, offsets out.

use std::{ffi::CStr, hash::BuildHasher as _};

use hashbrown::{DefaultHashBuilder, HashTable};

const MAGIC: u16 = 0xeb9f;
const FORMAT_VERSION: u8 = 1;
const HEADER_BYTES: u32 = 24;
const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FORWARD: u32 = 7;
const KIND_TYPEDEF: u32 = 8;
const KIND_VOLATILE: u32 = 9;
const KIND_CONST: u32 = 10;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_TYPE_TAG: u32 = 18;
const KIND_ENUM64: u32 = 19;

/// The kernel's types.
#[derive(Default)]
pub struct Types {
    data: Vec<u8>,
    strings: usize,
    /// Byte position of each type, by type id; id 0 is void.
    positions: Vec<u32>,
    /// Type ids by [`class`] and name.
    named: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// Bytes of types for each that has a name, roughly.
const TYPICAL_BYTES: usize = 40;

struct Member {
    bits: u64,
    of: u32,
}

impl Types {
    /// Those of a kernel of which nothing is known.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether nothing is known.
    pub fn are_none(&self) -> bool {
        self.data.is_empty()
    }

    /// Reads BTF; `None` where the bytes are no BTF or break off.
    pub fn parse(data: Vec<u8>) -> Option<Self> {
        let header = u32_at(&data, 4)? as usize;
        if data.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let start = header + u32_at(&data, 8)? as usize;
        let end = start + u32_at(&data, 12)? as usize;
        let strings = header + u32_at(&data, 16)? as usize;
        let mut types = Self {
            data,
            strings,
            positions: vec![0],
            named: HashTable::with_capacity(end.saturating_sub(start) / TYPICAL_BYTES),
            hasher: DefaultHashBuilder::default(),
        };
        let mut position = start;
        while position < end {
            position += types.index(position)?;
        }
        Some(types)
    }

    /// Enters the type at `position`; its length in bytes.
    fn index(&mut self, position: usize) -> Option<usize> {
        let (kind, members) = self.kind(position)?;
        let id = u32::try_from(self.positions.len()).ok()?;
        self.positions.push(u32::try_from(position).ok()?);
        if let Some(class) = class(kind) {
            let name = self.string(u32_at(&self.data, position)?)?;
            if !name.is_empty() {
                let hash = self.hasher.hash_one((class, name));
                let mut named = std::mem::take(&mut self.named);
                named.insert_unique(hash, id, |id| {
                    self.hasher.hash_one(self.name(*id).unwrap_or_default())
                });
                self.named = named;
            }
        }
        Some(12 + extra_bytes(kind, members))
    }

    /// Class and name of a type that has both.
    fn name(&self, id: u32) -> Option<(u32, &[u8])> {
        let position = *self.positions.get(id as usize)? as usize;
        let class = class(self.kind(position)?.0)?;
        Some((class, self.string(u32_at(&self.data, position)?)?))
    }

    /// Type ids of a class with this name.
    fn ids<'a>(&'a self, class: u32, name: &'a str) -> impl Iterator<Item = u32> {
        let wanted = (class, name.as_bytes());
        let hash = self.hasher.hash_one(wanted);
        let ids = self.named.iter_hash(hash).copied();
        ids.filter(move |id| self.name(*id) == Some(wanted))
    }

    fn kind(&self, position: usize) -> Option<(u32, usize)> {
        let info = u32_at(&self.data, position + 4)?;
        Some((info >> 24 & 0x1f, (info & 0xffff) as usize))
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        let bytes = self.data.get(self.strings + offset as usize..)?;
        Some(CStr::from_bytes_until_nul(bytes).ok()?.to_bytes())
    }

    /// Offset of a field, bytes. `path` may go through nested structs ("f_path.dentry"); anonymous structs and unions
    /// need no name.
    pub fn offset(&self, structure: &str, path: &str) -> Option<u64> {
        let mut structures: Vec<u32> = self.ids(KIND_STRUCT, structure).collect();
        structures.sort_unstable();
        structures.into_iter().find_map(|id| {
            let mut current = id;
            let mut bits = 0;
            for name in path.split('.') {
                let member = self.member(current, name)?;
                bits += member.bits;
                current = member.of;
            }
            Some(bits / 8)
        })
    }

    /// Value of a constant of an enum of 32 bits.
    pub fn enumerator(&self, enumeration: &str, name: &str) -> Option<u64> {
        let id = self.ids(KIND_ENUM, enumeration).max()?;
        let position = *self.positions.get(id as usize)? as usize;
        let (_, constants) = self.kind(position)?;
        (0..constants).find_map(|index| {
            let at = position + 12 + 8 * index;
            let own = self.string(u32_at(&self.data, at)?)?;
            let value = u32_at(&self.data, at + 4)?;
            (own == name.as_bytes()).then_some(value.into())
        })
    }

    /// Type id of a struct.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.ids(KIND_STRUCT, name).min()
    }

    /// Type id of a function; the kernel's own functions that programs may call are among them.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.ids(KIND_FUNC, name).max()
    }

    /// Type id of a variable that every CPU has.
    pub fn variable(&self, name: &str) -> Option<u32> {
        self.ids(KIND_VAR, name).max()
    }

    /// Type id of a tracepoint.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.ids(KIND_TYPEDEF, &format!("btf_trace_{name}")).max()
    }

    /// Whether the kernel has this tracepoint.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoint(name).is_some()
    }

    /// Number of a tracepoint's arguments.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let pointer = self.resolve(self.tracepoint(name)?)?;
        let function = self.resolve(u32_at(&self.data, pointer + 8)?)?;
        let (kind, parameters) = self.kind(function)?;
        // The first parameter is the kernel's own.
        (kind == KIND_FUNC_PROTO).then(|| parameters.saturating_sub(1))
    }

    /// The type information by which aya finds hooks: tracepoints and iterators under their type ids, and of all other types
    /// nothing but the id. aya takes ten times as long to read all of them.
    pub fn of_hooks(&self) -> Vec<u8> {
        let mut types: Vec<u8> = Vec::with_capacity(12 * self.positions.len());
        let mut strings = vec![0];
        for position in self.positions.iter().skip(1) {
            let hook = self.hook(*position as usize);
            let (kind, name) = hook.unwrap_or((KIND_FORWARD, b""));
            let offset = if name.is_empty() { 0 } else { strings.len() };
            if !name.is_empty() {
                strings.extend_from_slice(name);
                strings.push(0);
            }
            for word in [offset as u32, kind << 24, 0] {
                types.extend_from_slice(&word.to_ne_bytes());
            }
        }
        let [types_bytes, strings_bytes] = [types.len(), strings.len()].map(|bytes| bytes as u32);
        let mut data = Vec::with_capacity(types.len() + strings.len() + HEADER_BYTES as usize);
        data.extend_from_slice(&MAGIC.to_ne_bytes());
        data.extend_from_slice(&[FORMAT_VERSION, 0]);
        for word in [HEADER_BYTES, 0, types_bytes, types_bytes, strings_bytes] {
            data.extend_from_slice(&word.to_ne_bytes());
        }
        data.append(&mut types);
        data.append(&mut strings);
        data
    }

    /// Kind and name of a type, if it represents a tracepoint or an iterator.
    fn hook(&self, position: usize) -> Option<(u32, &[u8])> {
        let (kind, _) = self.kind(position)?;
        let prefix = match kind {
            KIND_TYPEDEF => b"btf_trace_".as_slice(),
            KIND_FUNC => b"bpf_iter_",
            _ => return None,
        };
        let name = self.string(u32_at(&self.data, position)?)?;
        name.starts_with(prefix).then_some((kind, name))
    }

    fn member(&self, id: u32, name: &str) -> Option<Member> {
        let position = self.resolve(id)?;
        let (kind, members) = self.kind(position)?;
        if kind != KIND_STRUCT && kind != KIND_UNION {
            return None;
        }
        let bitfields = u32_at(&self.data, position + 4)? >> 31 == 1;
        (0..members).find_map(|index| {
            let at = position + 12 + 12 * index;
            let own = self.string(u32_at(&self.data, at)?)?;
            let of = u32_at(&self.data, at + 4)?;
            let offset = u32_at(&self.data, at + 8)?;
            let bits = u64::from(if bitfields {
                offset & 0xff_ffff
            } else {
                offset
            });
            if own == name.as_bytes() {
                return Some(Member { bits, of });
            }
            if !own.is_empty() {
                return None;
            }
            let inner = self.member(of, name)?;
            Some(Member {
                bits: bits + inner.bits,
                of: inner.of,
            })
        })
    }

    /// Position of the type behind typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<usize> {
        // A chain is a handful long; the bound keeps damaged data from looping.
        for _ in 0..32 {
            let position = *self.positions.get(id as usize)? as usize;
            if position == 0 {
                return None;
            }
            match self.kind(position)?.0 {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => {
                    id = u32_at(&self.data, position + 8)?;
                }
                _ => return Some(position),
            }
        }
        None
    }
}

/// Kinds that are looked up by name, structs and unions together; `None` for others.
fn class(kind: u32) -> Option<u32> {
    match kind {
        KIND_STRUCT | KIND_UNION => Some(KIND_STRUCT),
        KIND_ENUM | KIND_TYPEDEF | KIND_FUNC | KIND_VAR => Some(kind),
        _ => None,
    }
}

/// Bytes behind the twelve that every type has.
fn extra_bytes(kind: u32, members: usize) -> usize {
    match kind {
        KIND_INT | KIND_VAR | KIND_DECL_TAG => 4,
        KIND_ARRAY => 12,
        KIND_STRUCT | KIND_UNION | KIND_DATASEC | KIND_ENUM64 => 12 * members,
        KIND_ENUM | KIND_FUNC_PROTO => 8 * members,
        _ => 0,
    }
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use aya::{Btf, Endianness};

    use super::*;

    fn running() -> Types {
        Types::parse(std::fs::read("/sys/kernel/btf/vmlinux").unwrap()).unwrap()
    }

    #[test]
    fn offsets_of_the_running_kernel_are_plausible() {
        let types = running();
        // Fixed by the system call interface and by long-standing layouts.
        assert_eq!(types.offset("iovec", "iov_len"), Some(8));
        assert_eq!(types.offset("list_head", "prev"), Some(8));
        let path = types.offset("file", "f_path").unwrap();
        assert_eq!(types.offset("file", "f_path.dentry"), Some(path + 8));
        assert_eq!(types.offset("file", "no_such_field"), None);
        assert_eq!(types.offset("no_such_struct", "x"), None);
    }

    #[test]
    fn tracepoints_are_found_by_name() {
        let types = running();
        assert!(types.has_tracepoint("sys_enter"));
        assert!(!types.has_tracepoint("no_such_tracepoint"));
        assert_eq!(types.tracepoint_arguments("sys_enter"), Some(2));
        assert_eq!(types.tracepoint_arguments("sched_process_exec"), Some(3));
    }

    #[test]
    fn hooks_keep_their_type_ids_in_what_is_made_for_aya() {
        let types = running();
        let data = types.of_hooks();
        Btf::parse(&data, Endianness::default()).unwrap();
        let hooks = Types::parse(data).unwrap();
        for hook in ["sys_enter", "sys_exit", "sched_switch"] {
            assert!(hooks.has_tracepoint(hook), "{hook}");
            assert_eq!(hooks.tracepoint(hook), types.tracepoint(hook), "{hook}");
        }
        let iterator = "bpf_iter_task";
        assert!(hooks.function(iterator).is_some());
        assert_eq!(hooks.function(iterator), types.function(iterator));
        assert!(!hooks.has_tracepoint("no_such_tracepoint"));
        assert_eq!(hooks.structure("file"), None);
    }

    #[test]
    fn damaged_data_is_refused_and_never_panics() {
        assert!(Types::parse(vec![]).is_none());
        assert!(Types::parse(vec![0; 64]).is_none());
        let mut whole = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
        whole.truncate(whole.len() / 3);
        if let Some(types) = Types::parse(whole) {
            let _ = types.offset("task_struct", "files");
        }
    }
}
