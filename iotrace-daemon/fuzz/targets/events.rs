//! What the kernel programs write, as a recording through the service receives it. Events, whose names others choose, go
//! into a model; counters are only decoded: their sums are the kernel programs' own, and fit where those fitted.
#![no_main]

use iotrace_model::Model;
use iotrace_tracer::drain::{
    Batch,
    wire::{Kind, unpack},
};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 7] = [
    Kind::Events,
    Kind::Basic,
    Kind::Full,
    Kind::BasicOverflow,
    Kind::FullOverflow,
    Kind::Failures,
    Kind::NegativeLookups,
];

// Batches: a byte for the kind, two for the length.
fuzz_target!(|data: &[u8]| {
    let mut model = Model::with_history();
    let mut rest = data;
    while let [kind, low, high, bytes @ ..] = rest {
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
        let (batch, after) = bytes.split_at(length);
        if let Some(batch @ Batch::Events(_)) = unpack(kind, batch) {
            batch.apply(&mut model);
        }
        rest = after;
    }
});
