//! Rows of what was counted of the block layer, and back.

use iotrace_common::block::{Requests, Transfers, class};

use super::{
    batch::Batch,
    tables::{
        Part, plausible, put_identity, put_text_and_raw, take_bounds, take_identity,
        take_text_or_raw,
    },
};
use iotrace_model::{
    Model,
    block::{Classes, Device, Owner},
    history::Bounds,
    input::ProcessId,
    mounts::parse_device,
};

impl Part<'_> {
    /// A row of `devices`.
    pub fn put_device(&self, batch: &mut Batch, device: &Device, class: &str, of: &Requests) {
        self.put_interval(batch);
        batch.put_text(&self.run.host);
        batch.put_text(&device.numbers());
        batch.put_text(&device.name);
        batch.put_text(class);
        for value in [of.requests, of.bytes, of.failures, of.ns, of.deepest] {
            batch.put(value as i64);
        }
        let durations = (0..).zip(of.durations);
        let durations: Vec<(u64, u64)> = durations.filter(|(_, calls)| *calls > 0).collect();
        batch.put_pairs(&durations);
    }

    /// A row of `transfers`.
    pub fn put_transfers(&self, batch: &mut Batch, model: &Model, owner: Owner, of: &Transfers) {
        self.put_interval(batch);
        batch.put_text(&self.run.host);
        let process = owner
            .process
            .map(|process| model.processes()[process as usize].id);
        batch.put_option(process.map(|process| process.pid.into()));
        batch.put_option(process.map(|process| process.start.into()));
        let file = owner.file.map(|file| model.file(file));
        let path = file.as_ref().map(|file| file.path);
        put_text_and_raw(batch, path.filter(|path| !path.is_empty()));
        put_identity(batch, file.map(|file| file.id));
        for value in [of.reads, of.writes, of.bytes_read, of.bytes_written] {
            batch.put(value as i64);
        }
    }
}

/// Takes a row of `devices` into the model, and returns its interval.
pub fn take_device(batch: &mut Batch, model: &mut Model) -> Result<Bounds, &'static str> {
    let bounds = take_bounds(batch);
    batch.skip();
    let number = String::from_utf8(batch.take_bytes()).ok();
    let number = number.and_then(|number| parse_device(&number));
    let device = Device {
        number: number.ok_or("a row names no device")?,
        name: String::from_utf8_lossy(&batch.take_bytes()).into_owned(),
    };
    let operation = batch.take_bytes();
    let mut classes = Classes::default();
    let named = class::NAMES.into_iter().zip(&mut classes);
    let mut named = named.filter(|(name, _)| name.as_bytes() == operation);
    let (_, requests) = named
        .next()
        .ok_or("it names an operation of a device that this iotrace does not know")?;
    let mut next = || plausible(batch.take() as u64);
    *requests = Requests {
        requests: next()?,
        bytes: next()?,
        failures: next()?,
        ns: next()?,
        deepest: next()?,
        ..Requests::default()
    };
    for (bucket, count) in batch.take_pairs() {
        let calls = requests.durations.get_mut(bucket as usize);
        *calls.ok_or("it has a bucket of durations that there is none of")? = plausible(count)?;
    }
    model.block_mut().add_device(device, &classes);
    Ok(bounds)
}

/// Takes a row of `transfers` into the model, and returns its interval.
pub fn take_transfers(batch: &mut Batch, model: &mut Model) -> Result<Bounds, &'static str> {
    let bounds = take_bounds(batch);
    batch.skip();
    let (pid, start) = (batch.take_option(), batch.take_option());
    let process = pid.zip(start).map(|(pid, start)| ProcessId {
        pid: pid as u32,
        start: start as u32,
    });
    let path = take_text_or_raw(batch);
    let file = take_identity(batch);
    let mut next = || plausible(batch.take() as u64);
    let transfers = Transfers {
        reads: next()?,
        writes: next()?,
        bytes_read: next()?,
        bytes_written: next()?,
    };
    if let (Some(file), Some(path)) = (file, path) {
        model.restore_path(file, &path);
    }
    model.add_transfers(process, file, &transfers);
    Ok(bounds)
}
