//! Whose the logs are, by the rights of the processes of a unit, and what is told of which process.

use iotrace_common::{diag, rights::Rights};

use super::{
    super::owner::{self, Owner, Standing},
    Feed,
};
use crate::{
    processes::Processes,
    socket::with_known_namespace,
    totals::{Totals, UNKNOWN, UnitId},
};
use iotrace_model::{
    Process,
    counters::saturating_sum,
    input::{Event, ProcessId},
    targets,
};
use iotrace_tracer::kernel::{Losses, hooks::Purpose};

/// An event is seen before the drain that has the counters of the time before it, or before the one after that.
const DRAINS_UNTIL_SETTLED: u8 = 2;
/// Different rights of one process within that time. One with more is nobody's to see.
const MAX_RIGHTS: usize = 8;

impl Feed {
    /// Takes what was lost until now. What lost events would have said of the rights of processes is not known.
    pub fn set_losses(&mut self, losses: &Losses, damaged: u64) {
        let dropped = diag::NAMES[diag::EVENTS_DROPPED as usize];
        let skipped = diag::MISSES[Purpose::Processes as usize].0;
        let counts = [dropped, skipped].map(|reason| losses.get(reason).copied().unwrap_or(0));
        let lost = saturating_sum(counts).saturating_add(damaged);
        if lost > self.lost.0 {
            self.lost = (lost, DRAINS_UNTIL_SETTLED);
            // Where they are needed, /proc says them again.
            self.standings.clear();
        }
    }

    /// Takes what rights processes begin with; comes after the units know the event.
    pub fn see(&mut self, event: &Event, processes: &Processes) {
        match event {
            Event::Fork { child, rights, .. } => self.begins(*child, *rights, false, processes),
            Event::Exec {
                process, rights, ..
            } => self.begins(*process, *rights, true, processes),
            // It has the process's unit from now on.
            Event::Environment { process, .. } => {
                if let Some(unit) = processes.known_unit(*process) {
                    self.follow(unit, *process);
                }
            }
            Event::Exit { process, .. } => {
                if let Some(standing) = self.standings.get_mut(process) {
                    *standing = standing.settled();
                    let standing = *standing;
                    self.judge(&standing);
                }
            }
            _ => {}
        }
    }

    fn begins(&mut self, process: ProcessId, rights: Rights, is_exec: bool, processes: &Processes) {
        self.take_rights(process, rights, is_exec);
        let unit = processes.known_unit(process).unwrap_or(UNKNOWN);
        let standing = match self.standings.get(&process) {
            Some(standing) => standing.then(unit, rights),
            None => Standing::new(unit, rights, false),
        };
        self.standings.insert(process, standing);
        self.judge(&standing);
    }

    /// Lets a process decide whose the logs of its unit are: the one that is written, and one that has its last counts.
    fn judge(&mut self, standing: &Standing) {
        if let Some(logged) = self.units.get_mut(&standing.unit) {
            logged.owner.take(standing);
        }
        let closing = self.closing.iter_mut();
        for closing in closing.filter(|closing| closing.unit == standing.unit) {
            closing.owner.take(standing);
        }
    }

    /// Takes that a process is of a unit.
    fn follow(&mut self, unit: UnitId, process: ProcessId) {
        if let Some(standing) = self.standings.get_mut(&process)
            && standing.unit != unit
        {
            *standing = standing.moved(unit);
            let standing = *standing;
            self.judge(&standing);
        }
    }

    /// What a process is in its unit; from /proc, where no event has said it.
    fn standing(&mut self, unit: UnitId, process: &Process) -> Standing {
        self.follow(unit, process.id);
        if let Some(standing) = self.standings.get(&process.id) {
            return *standing;
        }
        // Looked at last: until here it was this process, and not another that got its pid.
        let about = targets::identify(process.id.pid);
        let about = about.filter(|_| targets::is_running(process.id));
        let rights = about.as_ref().and_then(|about| about.rights);
        let rights = rights.map_or(Rights::UNKNOWN, with_known_namespace);
        let mut standing = Standing::new(unit, rights, true);
        let start = about.map_or(i64::MAX, |about| {
            self.run.clock.unix_ns_of_boottime(about.start_boottime)
        });
        if start < self.run.start_unix_ns {
            // It was there before the service.
            standing = standing.settled();
        }
        self.standings.insert(process.id, standing);
        self.judge(&standing);
        standing
    }

    /// Whether a unit's log has nothing of a process, because it is root's.
    pub(super) fn is_left_out(&mut self, unit: UnitId, process: &Process, totals: &Totals) -> bool {
        let standing = self.standing(unit, process);
        let owner = match self.units.get(&unit) {
            Some(logged) => logged.owner,
            None => match totals.units().get(unit) {
                Some(unit) => Owner::new(unit),
                None => return false,
            },
        };
        // The job is root's own where the process is of it.
        let is_of_job = process.about.role.job.is_some() && owner.user().is_none();
        standing.state == owner::State::Root && owner.leaves_root_out() && !is_of_job
    }

    /// Settles whose the logs are at the end of an interval: root's processes have had the time to begin programs of users.
    pub(super) fn settle(&mut self) {
        for logged in self.units.values_mut() {
            logged.awaits = false;
        }
        for standing in self.standings.values_mut() {
            *standing = standing.aged();
            if let Some(logged) = self.units.get_mut(&standing.unit) {
                logged.owner.take(standing);
                logged.awaits |= logged.owner.awaits(standing);
            }
        }
        if self.lost.1 > 0 {
            self.lost.1 -= 1;
            let open = self.units.values_mut().map(|logged| &mut logged.owner);
            let closing = self.closing.iter_mut().map(|closing| &mut closing.owner);
            open.chain(closing).for_each(Owner::give_to_root);
        }
    }

    /// Takes with which rights a process goes on. Counters that are drained together may be of the program before an exec and
    /// of the one after it.
    fn take_rights(&mut self, process: ProcessId, rights: Rights, is_exec: bool) {
        let known = self.standings.get(&process);
        let was_users = known.is_some_and(|known| matches!(known.state, owner::State::Of { .. }));
        let of_late = self.rights.entry(process).or_default();
        match of_late.last_mut() {
            // It had these until now.
            Some((_, drains)) => *drains = DRAINS_UNTIL_SETTLED,
            None if is_exec && !was_users => {
                of_late.push((Rights::UNKNOWN, DRAINS_UNTIL_SETTLED));
            }
            None => {}
        }
        if of_late.last().is_some_and(|(last, _)| *last == rights) {
            return;
        }
        if of_late.len() >= MAX_RIGHTS {
            *of_late = vec![(Rights::UNKNOWN, DRAINS_UNTIL_SETTLED)];
        }
        of_late.push((rights, DRAINS_UNTIL_SETTLED));
    }

    /// Whether a log may say which program a process runs.
    pub(super) fn may_name(&self, unit: UnitId, process: ProcessId) -> bool {
        let (logged, standing) = (self.units.get(&unit), self.standings.get(&process));
        let standing = standing.filter(|standing| standing.unit == unit);
        logged
            .zip(standing)
            .is_some_and(|(logged, standing)| logged.owner.may_name(standing.state))
    }

    /// Whether it is not told which files a process uses.
    pub(super) fn is_private(&self, unit: UnitId, process: ProcessId) -> bool {
        let Some(logged) = self.units.get(&unit) else {
            return true;
        };
        let of_late = self.rights.get(&process).map_or(&[][..], Vec::as_slice);
        let was_others = |(rights, _): &(Rights, u8)| !logged.owner.may_name_with(rights);
        !self.may_name(unit, process) || of_late.iter().any(was_others)
    }
}
