//! The ends of logs, and what goes to the thread.

use std::{
    collections::HashSet,
    sync::{atomic::Ordering::Relaxed, mpsc::TrySendError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    super::{
        Message,
        about::is_named,
        note::{End, Note},
        owner::Owner,
    },
    Closing, Feed,
};
use crate::{processes::Processes, socket::protocol::Code, totals::UnitId};
use iotrace_model::host;

/// A unit has ended when it has had no process and no count for this long: the last counts come a drain later.
const END_AFTER: Duration = Duration::from_secs(3);
/// A log that lasts longer is ended, and goes on in another.
const MAX_DURATION: Duration = Duration::from_secs(86_400);

impl Feed {
    /// Takes who wishes the end of logs.
    pub(super) fn take_wishes(&mut self) {
        for wish in std::mem::take(&mut self.wishes) {
            let named = self
                .units
                .iter()
                .filter(|(_, logged)| is_named(&wish.job, &logged.name, &logged.job));
            let named: Vec<(UnitId, Owner)> =
                named.map(|(unit, logged)| (*unit, logged.owner)).collect();
            if named.is_empty() {
                let message = format!(
                    "no log of job {} is being written: it has ended, or the job has used no file",
                    wish.job
                );
                wish.refuse(Code::Gone, &message);
                continue;
            }
            let may_end = |owner: &Owner| wish.user == 0 || owner.user() == Some(wish.user);
            let allowed = named.iter().filter(|(_, owner)| may_end(owner));
            let allowed: Vec<UnitId> = allowed.map(|(unit, _)| *unit).collect();
            if allowed.is_empty() {
                let message = format!(
                    "the log of job {} is another user's or root's: only root may end it",
                    wish.job
                );
                wish.refuse(Code::Denied, &message);
                continue;
            }
            let mut ended = Vec::new();
            for unit in allowed {
                let (tell, told) = oneshot::channel();
                ended.push(told);
                if let Some(logged) = self.units.get_mut(&unit) {
                    logged.told.push(tell);
                }
            }
            // Who wished it may have gone.
            let _ = wish.reply.send(Ok(ended));
        }
    }

    /// Ends the logs of units without a process, and those that have lasted for long.
    pub(super) fn end_units(&mut self, processes: &Processes, now: (Instant, i64)) {
        let living = processes.all_living().into_iter();
        let living: HashSet<UnitId> = living.map(|(_, unit)| unit).collect();
        let mut ended = Vec::new();
        for (unit, logged) in &mut self.units {
            if living.contains(unit) {
                logged.active = now;
            }
            let idle = now.0.saturating_duration_since(logged.active.0);
            let is_long = now.0.saturating_duration_since(logged.begun) >= MAX_DURATION;
            let unit_ended = idle >= END_AFTER;
            if unit_ended || is_long || !logged.told.is_empty() {
                let at = logged.active.1;
                ended.push((*unit, End { at, unit_ended }));
            }
        }
        self.refused.retain(|unit| living.contains(unit));
        for (unit, end) in ended {
            self.note(unit).end = Some(end);
        }
    }

    /// The ends of the logs that got their last counts a drain ago.
    fn closing_notes(&mut self) -> Vec<Note> {
        let standings = &self.standings;
        let closing = self.closing.iter_mut();
        let notes = closing.map(|closing| {
            let mut of_unit = standings.values().filter(|of| of.unit == closing.unit);
            let awaits = of_unit.any(|standing| closing.owner.awaits(standing));
            Note {
                unit: closing.unit,
                user: closing.owner.user().filter(|_| !awaits),
                candidate: closing.owner.user(),
                now: closing.end.at,
                end: Some(closing.end),
                told: std::mem::take(&mut closing.told),
                ..Note::default()
            }
        });
        notes.collect()
    }

    /// Sends the notes. If the thread does not keep up, they stay, without files.
    pub(super) fn send(&mut self, unix: i64) {
        if self.notes.is_empty() && self.closing.is_empty() {
            return;
        }
        let mut ended = Vec::new();
        for (unit, note) in &mut self.notes {
            note.now = unix;
            if let Some(logged) = self.units.get(unit) {
                note.candidate = logged.owner.user();
                note.user = note.candidate.filter(|_| !logged.awaits);
                note.groups.clone_from(&logged.groups);
            }
            if let Some(end) = note.end.take() {
                note.now = end.at;
                ended.push((*unit, end));
            }
        }
        self.mounts.clear();
        self.named.clear();
        let mut notes = self.closing_notes();
        let ends = notes.len();
        // The end of a log comes before the beginning of the unit's next one.
        notes.extend(std::mem::take(&mut self.notes).into_values());
        match self.writer.sender.try_send(Message::Notes(notes)) {
            Ok(()) => {
                self.closing.clear();
                for (unit, end) in ended {
                    let Some(logged) = self.units.remove(&unit) else {
                        continue;
                    };
                    self.closing.push(Closing {
                        unit,
                        owner: logged.owner,
                        end,
                        told: logged.told,
                    });
                    self.ended.insert(unit, end.at);
                    self.known.retain(|_, known| known.unit != unit);
                }
            }
            Err(TrySendError::Full(Message::Notes(mut notes))) => {
                let unsent = notes.split_off(ends);
                for (note, closing) in notes.into_iter().zip(&mut self.closing) {
                    closing.told = note.told;
                }
                for mut note in unsent {
                    let merged = note.merge();
                    self.counts.merged.fetch_add(merged, Relaxed);
                    self.notes.insert(note.unit, note);
                }
            }
            // The thread has ended by a panic, which was reported.
            Err(_) => {}
        }
    }

    /// Ends all logs.
    pub fn end(mut self) {
        let now = host::realtime().unwrap_or(0);
        let closing = self.closing_notes();
        let notes = std::mem::take(&mut self.notes).into_values();
        let notes = closing.into_iter().chain(notes).collect();
        self.writer.end(notes, now);
    }
}
