//! What was drained as bytes, on its way from the service to who asked it for a recording.
//!
//! Entries travel without the words that are 0, which most are; events in the format of postcard. What leaves: [`pack`] on the
//! one side, [`unpack`] on the other; both are of one version of the shared types.

use aya::Pod;
use iotrace_common::trace::Owner;
use iotrace_model::input::Event;
use serde::{Deserialize, Serialize};

use super::{Batch, Records, Traced, batch::Entries, part::Key};

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
    Latencies,
    Failures,
    NegativeLookups,
    Threads,
    Waits,
    Operations,
    LineRecords,
    LineCounts,
}

/// What was drained as bytes, without what is of process `own`; `None` for what no recording through the service has.
pub fn pack(batch: &Batch, own: u32) -> Option<(Kind, Vec<u8>)> {
    Some(match batch {
        Batch::Events(events) => (Kind::Events, pack_events(events, own)?),
        Batch::Basic(entries) => (Kind::Basic, pack_entries(entries, own)),
        Batch::Full(entries) => (Kind::Full, pack_entries(entries, own)),
        Batch::BasicOverflow(entries) => (Kind::BasicOverflow, pack_entries(entries, own)),
        Batch::FullOverflow(entries) => (Kind::FullOverflow, pack_entries(entries, own)),
        Batch::Latencies(entries) => (Kind::Latencies, pack_entries(entries, own)),
        Batch::Failures(entries) => (Kind::Failures, pack_entries(entries, own)),
        Batch::NegativeLookups(entries) => (Kind::NegativeLookups, pack_entries(entries, own)),
        Batch::Threads(look) => {
            let of_others = look.part(|process| process.pid != own);
            (Kind::Threads, postcard::to_stdvec(&of_others).ok()?)
        }
        Batch::WaitRecords(records) => (Kind::Waits, pack_waits(records, own)),
        Batch::Operations(traced) => (Kind::Operations, pack_operations(traced, own)),
        Batch::LineRecords(records) => (Kind::LineRecords, postcard::to_stdvec(records).ok()?),
        Batch::LineCounts(entries) => (Kind::LineCounts, pack_entries(entries, own)),
        // The service has no uprobes, and keeps no merged time over processes. What devices do is for its own metrics: it is
        // of all users.
        Batch::Library(_)
        | Batch::GlobalMerged(_)
        | Batch::Waits(_)
        | Batch::Timeline(_)
        | Batch::Lines(_)
        | Batch::Sources(_)
        | Batch::Devices(_)
        | Batch::Transfers(_) => {
            return None;
        }
    })
}

fn pack_entries<K: Key + Pod, V: Pod>((keys, values): &Entries<K, V>, own: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let both = keys.iter().zip(values);
    for (key, value) in both.filter(|(key, _)| key.process().pid != own) {
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

fn pack_waits(records: &Records, own: u32) -> Vec<u8> {
    let mut out = records.until.to_ne_bytes().to_vec();
    let of_others = records.waits.iter().filter(|wait| wait.tgid != own);
    of_others.for_each(|wait| put(wait, &mut out));
    out
}

fn unpack_waits(bytes: &[u8]) -> Option<Records> {
    let (until, mut rest) = bytes.split_first_chunk()?;
    let mut waits = Vec::new();
    while !rest.is_empty() {
        waits.push(take(&mut rest)?);
    }
    Some(Records {
        until: u64::from_ne_bytes(*until),
        waits,
    })
}

fn pack_operations(traced: &Traced, own: u32) -> Vec<u8> {
    let of_others = traced.part(|process, _| process.pid != own);
    let mut out = (of_others.missing.len() as u64).to_ne_bytes().to_vec();
    for (process, missing) in &of_others.missing {
        let owner = Owner {
            tgid: process.pid,
            start: process.start,
        };
        put(&owner, &mut out);
        put(missing, &mut out);
    }
    let operations = of_others.operations.iter();
    operations.for_each(|operation| put(operation, &mut out));
    out
}

fn unpack_operations(bytes: &[u8]) -> Option<Traced> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let mut traced = Traced::default();
    for _ in 0..u64::from_ne_bytes(*count) {
        let owner: Owner = take(&mut rest)?;
        traced.missing.push(((&owner).into(), take(&mut rest)?));
    }
    while !rest.is_empty() {
        traced.operations.push(take(&mut rest)?);
    }
    Some(traced)
}

fn pack_events(events: &[Event], own: u32) -> Option<Vec<u8>> {
    let of_others: Vec<&Event> = events
        .iter()
        .filter(|event| event.process().is_none_or(|process| process.pid != own))
        .collect();
    // A map or a length that is not known would be needed for it to fail.
    postcard::to_stdvec(&of_others).ok()
}

/// The batch that `bytes` are; `None` where they break off.
pub fn unpack(kind: Kind, bytes: &[u8]) -> Option<Batch> {
    Some(match kind {
        Kind::Events => Batch::Events(postcard::from_bytes(bytes).ok()?),
        Kind::Basic => Batch::Basic(entries(bytes)?),
        Kind::Full => Batch::Full(entries(bytes)?),
        Kind::BasicOverflow => Batch::BasicOverflow(entries(bytes)?),
        Kind::FullOverflow => Batch::FullOverflow(entries(bytes)?),
        Kind::Latencies => Batch::Latencies(entries(bytes)?),
        Kind::Failures => Batch::Failures(entries(bytes)?),
        Kind::NegativeLookups => Batch::NegativeLookups(entries(bytes)?),
        Kind::Threads => Batch::Threads(postcard::from_bytes(bytes).ok()?),
        Kind::Waits => Batch::WaitRecords(unpack_waits(bytes)?),
        Kind::Operations => Batch::Operations(unpack_operations(bytes)?),
        Kind::LineRecords => Batch::LineRecords(postcard::from_bytes(bytes).ok()?),
        Kind::LineCounts => Batch::LineCounts(entries(bytes)?),
    })
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
    use iotrace_common::{
        key::IoKey,
        trace::{Missing, Operation},
        value::Io,
        waits::Wait,
    };
    use iotrace_model::input::ProcessId;

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
        let Some(Batch::Basic((keys, values))) = unpack(kind, &bytes) else {
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
    fn events_are_the_same_behind_the_wire() {
        let exit = |pid| Event::Exit {
            process: ProcessId { pid, start: 1 },
            time: u64::MAX,
            status: 9 << 8,
        };
        let events = Batch::Events(vec![exit(1), exit(2)]);
        let (kind, bytes) = pack(&events, 2).unwrap();
        let Some(Batch::Events(read)) = unpack(kind, &bytes) else {
            panic!("another batch");
        };
        assert_eq!(read, [exit(1)], "that of process 2 is left out");
    }

    #[test]
    fn waits_are_the_same_behind_the_wire() {
        let of = |tgid| Wait {
            on: u64::MAX,
            tgid,
            nr: -1,
            ..Wait::default()
        };
        let records = |waits| Records { until: 7, waits };
        let batch = Batch::WaitRecords(records(vec![of(1), of(2), of(3)]));
        let (kind, bytes) = pack(&batch, 2).unwrap();
        let Some(Batch::WaitRecords(read)) = unpack(kind, &bytes) else {
            panic!("another batch");
        };
        assert_eq!(
            read,
            records(vec![of(1), of(3)]),
            "that of process 2 is left out"
        );
        assert!(unpack(kind, &bytes[..bytes.len() - 1]).is_none());
    }

    #[test]
    fn operations_are_the_same_behind_the_wire() {
        let of = |tgid| Operation {
            key: IoKey {
                tgid,
                ..IoKey::default()
            },
            end: u64::MAX,
            result: -1,
            ..Operation::default()
        };
        let lost = |pid| {
            let process = ProcessId { pid, start: 9 };
            let missing = Missing {
                lost: 5,
                left_out: 0,
            };
            (process, missing)
        };
        let traced = |pids: &[u32]| Traced {
            operations: pids.iter().map(|pid| of(*pid)).collect(),
            missing: pids.iter().map(|pid| lost(*pid)).collect(),
        };
        let (kind, bytes) = pack(&Batch::Operations(traced(&[1, 2, 3])), 2).unwrap();
        let Some(Batch::Operations(read)) = unpack(kind, &bytes) else {
            panic!("another batch");
        };
        assert_eq!(read, traced(&[1, 3]), "those of process 2 are left out");
        assert!(unpack(kind, &bytes[..bytes.len() - 1]).is_none());
        assert!(unpack(kind, &u64::MAX.to_ne_bytes()).is_none());
    }

    #[test]
    fn bytes_that_break_off_are_no_batch() {
        let (kind, bytes) = pack(&batch(), 0).unwrap();
        for length in 1..bytes.len() {
            let whole = unpack(kind, &bytes[..length]);
            // Between two entries is a place where they may end.
            if let Some(Batch::Basic((keys, values))) = whole {
                assert!(keys.len() < 3 && keys.len() == values.len());
            }
        }
        assert!(unpack(Kind::Events, &[9, 0]).is_none());
    }
}
