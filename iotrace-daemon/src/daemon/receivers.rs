//! Who gets what was drained: recordings, the units' waits, and the service's counts.

use iotrace_model::Model;
use iotrace_service::{
    intake::Intake, shared::Shared, subscriptions::Subscriptions, totals::Totals,
};
use iotrace_tracer::{
    drain::{Batch, Records, Resolution},
    kernel::{Kernel, recordings::Kept},
};

/// What threads of the units that the configuration names wait for.
#[derive(Default)]
pub struct UnitWaits(Resolution);

impl UnitWaits {
    /// Has waits kept of all processes; `None` where this kernel cannot.
    pub fn begin(kernel: &mut Kernel) -> Option<Self> {
        if let Err(error) = kernel.keep_all_waits() {
            log::warn!("it is not known what units wait for: {error}");
            return None;
        }
        Some(Self::default())
    }

    fn take(&mut self, records: &Records, intake: &mut Intake, model: &Model, totals: &mut Totals) {
        let is_wanted = |process| intake.keeps_waits(process, totals);
        let mut part = records.part(is_wanted, |_| true);
        self.0.take(&mut part);
        intake.take_waits(&self.0.sums(), model, totals);
    }
}

/// Who gets what was drained.
pub struct Receivers<'a> {
    pub subscriptions: &'a mut Subscriptions,
    pub waits: &'a mut Option<UnitWaits>,
    pub intake: &'a mut Intake,
    pub model: &'a mut Model,
    pub shared: &'a Shared,
    /// What is kept of all processes.
    pub kept: Kept,
}

impl Receivers<'_> {
    pub fn take(&mut self, batch: Batch) {
        let (intake, model) = (&mut *self.intake, &mut *self.model);
        self.subscriptions.take(&batch, model);
        if let (Batch::WaitRecords(records), Some(waits)) = (&batch, &mut self.waits) {
            self.shared
                .with(|state| waits.take(records, intake, model, &mut state.totals));
        }
        if let Some(batch) = batch.of_all(self.kept) {
            self.shared
                .with(|state| intake.see(&batch, &mut state.totals));
            batch.apply(model);
        }
    }
}
