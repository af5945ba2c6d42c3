//! Rows of what main threads waited for, and back.

use super::{
    batch::Batch,
    tables::{
        Part, phase_code, phase_name, plausible, put_identity, put_text_and_raw, take_bounds,
        take_identity, take_process, take_text_or_raw,
    },
};
use iotrace_model::{
    Model,
    history::Bounds,
    input::ProcessId,
    waits::{Key, Leaf, Waited},
};

impl Part<'_> {
    /// A row of `waits`.
    pub fn put_waited(&self, batch: &mut Batch, model: &Model, key: &Key, ns: u64) {
        let id = |process: u32| model.processes()[process as usize].id;
        let process = id(key.process);
        self.put_interval(batch);
        self.put_process(batch, process);
        batch.put(process.pid.into());
        batch.put_text(key.leaf.name());
        let by = key.by.map(id);
        batch.put_option(by.map(|by| by.pid.into()));
        batch.put_option(by.map(|by| by.start.into()));
        let file = key.file.map(|file| model.file(file));
        let path = file.as_ref().map(|file| file.path);
        put_text_and_raw(batch, path.filter(|path| !path.is_empty()));
        put_identity(batch, file.map(|file| file.id));
        batch.put_text(phase_name(key.phase));
        batch.put(ns as i64);
    }
}

/// Takes a row of `waits` into the model, and returns its interval.
pub fn take_waited(batch: &mut Batch, model: &mut Model) -> Result<Bounds, &'static str> {
    let bounds = take_bounds(batch);
    let process = take_process(batch);
    batch.skip();
    let leaf = Leaf::of_name(&batch.take_bytes());
    let leaf = leaf.ok_or("it names a kind of wait that this iotrace does not know")?;
    let (pid, start) = (batch.take_option(), batch.take_option());
    let by = pid.zip(start).map(|(pid, start)| ProcessId {
        pid: pid as u32,
        start: start as u32,
    });
    let path = take_text_or_raw(batch);
    let file = take_identity(batch);
    let phase = phase_code(&batch.take_bytes());
    let waited = Waited {
        process,
        leaf,
        by,
        file,
        phase: phase.ok_or("it names a phase that this iotrace does not know")?,
        ns: plausible(batch.take() as u64)?,
    };
    if let (Some(file), Some(path)) = (file, path) {
        model.restore_path(file, &path);
    }
    model.add_waited(&waited);
    Ok(bounds)
}
