//! What was drained as bytes, on its way from the service to who asked it for a recording.
//!
//! Entries travel without the words that are 0, which most are; events as the kernel side wrote them. What leaves:
//! [`pack`] on the one side, [`Unpacker`] on the other; both are of one version of the shared types.

use aya::Pod;
use iotrace_common::{
    event::Header,
    key::{FailureKey, IoKey, LookKey},
};
use serde::{Deserialize, Serialize};

use super::{
    Batch, Drain,
    batch::Entries,
    events::{Decoded, Decoder},
};

/// Bytes that are left out together where all are 0.
const WORD: usize = 8;

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Events,
    Basic,
    Full,
    BasicOverflow,
    FullOverflow,
    Failures,
    NegativeLookups,
}

/// Counters as bytes, without those of process `own`. Events go as they are: [`Drain::pack_events`].
pub fn pack(batch: &Batch, own: u32) -> Option<(Kind, Vec<u8>)> {
    Some(match batch {
        Batch::Basic(entries) => (Kind::Basic, pack_entries(entries, own)),
        Batch::Full(entries) => (Kind::Full, pack_entries(entries, own)),
        Batch::BasicOverflow(entries) => (Kind::BasicOverflow, pack_entries(entries, own)),
        Batch::FullOverflow(entries) => (Kind::FullOverflow, pack_entries(entries, own)),
        Batch::Failures(entries) => (Kind::Failures, pack_entries(entries, own)),
        Batch::NegativeLookups(entries) => (Kind::NegativeLookups, pack_entries(entries, own)),
        // The service has no uprobes, and keeps neither merged time over processes nor CPU time. What devices do is for
        // its own metrics: it is of all users.
        Batch::Events(_)
        | Batch::Library(_)
        | Batch::GlobalMerged(_)
        | Batch::Threads(_)
        | Batch::Waits(_)
        | Batch::Devices(_)
        | Batch::Transfers(_) => {
            return None;
        }
    })
}

/// A key that says whose counters these are.
trait Key: Pod {
    fn pid(&self) -> u32;
}

impl Key for IoKey {
    fn pid(&self) -> u32 {
        self.tgid
    }
}

impl Key for FailureKey {
    fn pid(&self) -> u32 {
        self.io.tgid
    }
}

impl Key for LookKey {
    fn pid(&self) -> u32 {
        self.tgid
    }
}

fn pack_entries<K: Key, V: Pod>((keys, values): &Entries<K, V>, own: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in keys.iter().zip(values).filter(|(key, _)| key.pid() != own) {
        put(key, &mut out);
        put(value, &mut out);
    }
    out
}

/// Appends a bit for each word that is not 0, and those words.
fn put<T: Pod>(value: &T, out: &mut Vec<u8>) {
    const { assert!(size_of::<T>().is_multiple_of(WORD)) };
    // SAFETY: `Pod` here are the values of maps: integers without padding, so every byte is initialized.
    let bytes = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    };
    let mask = out.len();
    out.resize(mask + mask_bytes::<T>(), 0);
    for (index, word) in bytes.chunks_exact(WORD).enumerate() {
        if word != [0; WORD] {
            out[mask + index / 8] |= 1 << (index % 8);
            out.extend_from_slice(word);
        }
    }
}

/// Undoes [`put`], and takes its bytes off the front.
fn take<T: Pod>(bytes: &mut &[u8]) -> Option<T> {
    let (mask, mut rest) = bytes.split_at_checked(mask_bytes::<T>())?;
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of `value`, all of them initialized.
    let target =
        unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    for (index, word) in target.chunks_exact_mut(WORD).enumerate() {
        if mask[index / 8] & 1 << (index % 8) != 0 {
            let (found, after) = rest.split_at_checked(WORD)?;
            word.copy_from_slice(found);
            rest = after;
        }
    }
    *bytes = rest;
    // SAFETY: plain data, for which every bit pattern is valid.
    Some(unsafe { value.assume_init() })
}

const fn mask_bytes<T>() -> usize {
    (size_of::<T>() / WORD).div_ceil(8)
}

impl Drain {
    /// Takes all events off the ring buffer as bytes, without those of process `own`: each with its length before it.
    /// True: a generation is half full, drain it now.
    pub fn pack_events(&mut self, own: u32, out: &mut Vec<u8>) -> bool {
        self.records(|header: Header, record| {
            if header.tgid != own {
                out.extend((record.len() as u32).to_ne_bytes());
                out.extend_from_slice(record);
            }
        })
    }
}

/// Makes batches of bytes again; keeps the first half of each rename until the second comes.
#[derive(Default)]
pub struct Unpacker {
    decoder: Decoder,
    damaged: u64,
}

impl Unpacker {
    /// The batch that `bytes` are; `None` where they break off.
    pub fn unpack(&mut self, kind: Kind, bytes: &[u8]) -> Option<Batch> {
        Some(match kind {
            Kind::Events => Batch::Events(self.events(bytes)?),
            Kind::Basic => Batch::Basic(entries(bytes)?),
            Kind::Full => Batch::Full(entries(bytes)?),
            Kind::BasicOverflow => Batch::BasicOverflow(entries(bytes)?),
            Kind::FullOverflow => Batch::FullOverflow(entries(bytes)?),
            Kind::Failures => Batch::Failures(entries(bytes)?),
            Kind::NegativeLookups => Batch::NegativeLookups(entries(bytes)?),
        })
    }

    /// Events so far that could not be decoded.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    fn events(&mut self, mut bytes: &[u8]) -> Option<Vec<iotrace_model::input::Event>> {
        let mut events = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            let (record, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
            match self.decoder.decode(record) {
                Decoded::Event(event) => events.push(event),
                Decoded::Damaged => self.damaged += 1,
                Decoded::Fill | Decoded::Pending | Decoded::ThreadEnd(_) => {}
            }
            bytes = rest;
        }
        bytes.is_empty().then_some(events)
    }
}

fn entries<K: Pod, V: Pod>(mut bytes: &[u8]) -> Option<Entries<K, V>> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        keys.push(take(&mut bytes)?);
        values.push(take(&mut bytes)?);
    }
    Some((keys, values))
}

#[cfg(test)]
mod tests {
    use iotrace_common::value::Io;

    use super::*;

    fn batch() -> Batch {
        let key = |tgid| IoKey {
            tgid,
            tid: tgid,
            start: 7,
            ..IoKey::default()
        };
        let mut io = Io::ZERO;
        (io.bytes_read, io.last_operation) = (4096, u64::MAX);
        Batch::Basic((vec![key(1), key(2), key(3)], vec![Io::ZERO, io, io]))
    }

    #[test]
    fn entries_are_the_same_behind_the_wire() {
        let (kind, bytes) = pack(&batch(), 3).unwrap();
        assert!(bytes.len() < size_of::<Io>(), "{} bytes", bytes.len());
        let Some(Batch::Basic((keys, values))) = Unpacker::default().unpack(kind, &bytes) else {
            panic!("another batch");
        };
        let Batch::Basic((all_keys, all_values)) = batch() else {
            unreachable!()
        };
        assert_eq!(keys, all_keys[..2], "those of process 3 are left out");
        for (value, whole) in values.iter().zip(&all_values) {
            assert_eq!(format!("{value:?}"), format!("{whole:?}"));
        }
    }

    #[test]
    fn bytes_that_break_off_are_no_batch() {
        let (kind, bytes) = pack(&batch(), 0).unwrap();
        for length in 1..bytes.len() {
            let whole = Unpacker::default().unpack(kind, &bytes[..length]);
            // Between two entries is a place where they may end.
            if let Some(Batch::Basic((keys, values))) = whole {
                assert!(keys.len() < 3 && keys.len() == values.len());
            }
        }
        assert!(
            Unpacker::default()
                .unpack(Kind::Events, &[9, 0, 0, 0, 1])
                .is_none()
        );
        assert!(Unpacker::default().unpack(Kind::Events, &[9, 0]).is_none());
    }
}
