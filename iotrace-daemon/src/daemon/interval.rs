//! One interval: what was counted goes to the service, and what is old is forgotten.

use std::time::Instant;

use super::Daemon;
use iotrace_model::host;
use iotrace_service::{intake::Intake, jobs, shared::Service};
use iotrace_tracer::{
    drain::Stats,
    in_flight,
    kernel::{KernelError, capabilities},
};

/// Intervals between two looks at what changes slowly: mounts, losses, processes whose end was missed.
const SLOW_INTERVALS: u64 = 10;
/// Processes that have ended, from which on the model forgets them.
const MIN_ENDED_PROCESSES: usize = 1000;

impl Daemon {
    /// Takes one interval.
    pub fn take(&mut self, stats: Stats, number: u64) -> Result<(), KernelError> {
        let now = Instant::now();
        self.kernel.attach_more();
        self.kernel.sweep_recordings()?;
        // After the drain that this interval ends with: they hold no less than the counters.
        let (losses, histograms) = (self.kernel.losses()?, self.kernel.histograms()?);
        let programs = match &self.measuring {
            Some(_) => self.kernel.program_runs(),
            None => Vec::new(),
        };
        let unmeasured = self.config.trace.program_stats && self.measuring.is_none();
        let devices = self.model.block().devices();
        let devices = devices.map(|(_, device, classes)| (device.clone(), *classes));
        let devices = devices.collect();
        let (intake, model, config) = (&mut self.intake, &mut self.model, &self.config);
        let families = &self.families;
        let is_slow = number.is_multiple_of(SLOW_INTERVALS);
        let in_flight = match is_slow {
            true => in_flight::of_all(&self.kernel.in_flight(), model, &self.clock),
            false => Vec::new(),
        };
        intake.set_losses(&losses, stats.damaged);
        intake.read_ahead(model);
        self.shared.with(|state| {
            intake.take(model, &mut state.totals, now);
            state.histograms = histograms;
            state.devices = devices;
            state.service.unaccounted = losses;
            state
                .service
                .unaccounted
                .insert("damaged_events".into(), stats.damaged);
            state.service.drain.update(stats);
            state.service.jobs = intake.jobs();
            state.service.programs = programs;
            state.service.memory.files = model.file_count() as u64;
            state.service.memory.reads_given_up = intake.processes().reads_given_up();
            state.service.memory.processes = intake.processes().count() as u64;
            if let Some(socket) = &self.socket {
                state.service.recordings = socket.state();
            }
            if is_slow {
                intake.take_in_flight(in_flight, &mut state.totals);
                intake.expire(&mut state.totals, config.metrics.linger.0, now);
                intake.look(&mut state.totals, now);
                state.service.warnings = warnings(&state.service, intake, unmeasured);
                let tables = state.totals.tables().into_iter();
                let tables = tables.chain(intake.tables()).chain(families.tables());
                let tables = tables.chain([("model_mounts", model.mounts().len())]);
                state.service.memory.tables = tables
                    .map(|(table, entries)| (table, entries as u64))
                    .collect();
            }
        });
        let seen = intake.go_on(model, config.metrics.findings, now);
        self.shared.with(|state| {
            seen.enter(&mut state.totals);
            state.service.memory.findings_skipped = intake.findings_skipped();
            state.service.memory.crowded_out = intake.crowded_out();
        });
        let is_over = self.model.file_count() > config.memory.max_files * 5 / 4;
        if is_over && !is_slow {
            self.forget()?;
        }
        if is_slow {
            self.forget()?;
            match host::machine_mountinfo() {
                Ok(text) => {
                    self.model.update_mounts(&text);
                    self.model.forget_mounts(&text);
                    self.intake.update_mounts(&text);
                }
                Err(error) => log::warn!("the mounts cannot be read: {error}"),
            }
            self.notifier.status(&self.summary());
        }
        self.shared.looked();
        Ok(())
    }

    /// Lets the model forget what is old, when there is enough of it.
    fn forget(&mut self) -> Result<(), KernelError> {
        let known = self.intake.processes().living();
        let ended = self.model.processes().len().saturating_sub(known);
        let max_files = self.config.memory.max_files;
        if self.model.file_count() <= max_files && ended < MIN_ENDED_PROCESSES.max(known) {
            return Ok(());
        }
        let processes = self.intake.processes();
        self.families
            .fold(&self.model, |process| processes.knows(process));
        let forgotten = self.intake.forget(&mut self.model, max_files);
        self.kernel.forget_names_of(&forgotten)?;
        self.shared.with(|state| {
            state.service.memory.forgotten_files += forgotten.len() as u64;
        });
        Ok(())
    }
}

/// What is missing, and what to do. `unmeasured`: the run time of the programs was asked for, and is not measured.
fn warnings(service: &Service, intake: &Intake, unmeasured: bool) -> Vec<String> {
    let hooks = service.hooks.iter().filter(|hook| !hook.attached);
    let mut warnings: Vec<String> = hooks
        .map(|hook| {
            let reason = hook.reason.as_deref().unwrap_or_default();
            format!("hook {} is not attached: {reason}", hook.name)
        })
        .collect();
    if let Some(reason) = &service.recordings.reason {
        warnings.push(format!("no recordings for users: {reason}"));
    }
    if let Some(error) = service.jobs.as_ref().and_then(|jobs| jobs.error.as_ref()) {
        warnings.push(format!("job logs are not written: {error}"));
    }
    if service.jobs.is_some() && !jobs::may_give() {
        warnings.push(
            "users cannot read their job logs: give the service the capabilities of job-logs.conf"
                .into(),
        );
    }
    let refused = intake.processes().refused();
    if refused > 0 {
        warnings.push(format!(
            "the environment of {refused} processes could not be read, so batch jobs are detected by their cgroups alone: \
             give the service CAP_SYS_PTRACE"
        ));
    }
    if capabilities::SYS_NICE.is_held() == Some(false) {
        warnings.push(
            "the draining thread has no priority, so under load more operations are counted without their file: give \
             the service CAP_SYS_NICE"
                .into(),
        );
    }
    if unmeasured {
        warnings.push(
            "the run time of the kernel programs is not measured: program_stats needs CAP_SYS_ADMIN"
                .into(),
        );
    }
    warnings
}
