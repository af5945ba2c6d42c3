//! Recordings that share the service's kernel programs: what is drained once is divided among those who asked for a part.
//!
//! ```text
//! scope    which processes a subscriber is told of
//! queue    what it has not taken yet
//! ```
//!
//! A subscription begins and ends between two drains, so a count is of it or is not. A subscriber gets the name of a file
//! before the first counts of it: the kernel sends names once, and the model keeps them.

mod queue;
mod scope;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use iotrace_common::{diag, key::FileId};
use iotrace_model::{
    Model,
    input::{Event, FileName, ProcessId},
    targets,
};
use iotrace_tracer::{
    drain::{Batch, Stats},
    kernel::{
        Losses,
        recordings::{Kept, Slot},
    },
};

use crate::{
    losses,
    socket::protocol::{Interpreter, Numbered, Sums},
};
pub use queue::{Item, Queue};
use scope::Scope;
pub use scope::Wanted;

/// What a subscriber asks of the side that counts.
pub struct Order {
    pub what: What,
    /// Whose order it is, and where the answer goes.
    pub queue: Arc<Queue>,
}

/// What is asked.
pub enum What {
    /// Counts of these processes from now on; [`Item::Begun`] is the answer.
    Begin(Begin),
    /// What was done until now; [`Item::All`].
    All,
    /// The same, and no more for this reason; [`Item::End`].
    End(Option<String>),
    /// Lines of a process; [`Item::Python`] is the answer.
    Python(Interpreter),
}

/// A subscription that begins.
pub struct Begin {
    pub wanted: Wanted,
    /// What is told beyond what is kept of all processes, and the recording for which the kernel side keeps that.
    pub kept: Kept,
    pub slot: Option<Slot>,
}

/// Who is told of what.
#[derive(Default)]
pub struct Subscriptions {
    all: Vec<Subscription>,
    /// Orders that wait for the end of the next drain.
    orders: Vec<Order>,
    /// Files whose names were told from memory: the kernel may know a newer size.
    told_from_memory: Vec<FileId>,
    /// Recordings of the kernel side that have ended.
    ended: Vec<Slot>,
    /// Whether somebody has stacks of native programs who had none of what was sent before.
    has_new_stacks: bool,
    /// Whether counters came last. What comes next is of another drain.
    is_counting: bool,
}

struct Subscription {
    queue: Arc<Queue>,
    scope: Scope,
    kept: Kept,
    slot: Option<Slot>,
    /// Files whose names it has.
    named: HashSet<FileId>,
    /// What was not counted, and what draining had cost, when it began.
    before: (Losses, Stats),
}

impl Subscriptions {
    /// Takes an order; it is carried out at the end of the next drain.
    pub fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// Orders that wait.
    pub fn waiting(&self) -> usize {
        self.orders.len()
    }

    /// Whether somebody is told of this, or is to be.
    pub fn want(&self, this: impl Fn(&Kept) -> bool) -> bool {
        let begin = |order: &Order| matches!(&order.what, What::Begin(begin) if this(&begin.kept));
        self.all.iter().any(|one| this(&one.kept)) || self.orders.iter().any(begin)
    }

    /// Recordings for which the kernel side need keep no more.
    pub fn take_ended(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.ended)
    }

    /// Number of subscriptions.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Hands on what is drained. Comes after the model has the events of the drain, and before it has its counters.
    pub fn take(&mut self, batch: &Batch, model: &Model) {
        if let Batch::Events(events) = batch {
            self.end_of_drain();
            for one in &mut self.all {
                one.events(events, model, &mut self.told_from_memory);
            }
            return;
        }
        // These may come between two drains.
        self.is_counting |= !matches!(
            batch,
            Batch::WaitRecords(_) | Batch::Operations(_) | Batch::LineRecords(_)
        );
        for one in &mut self.all {
            one.counters(batch, model, &mut self.told_from_memory);
        }
    }

    /// Carries out the first `count` orders, after a drain that began when they were there.
    pub fn carry_out(&mut self, count: usize, losses: &Losses, stats: Stats) {
        self.end_of_drain();
        let gone = self.all.extract_if(.., |one| one.queue.is_closed());
        self.ended.extend(gone.filter_map(|one| one.slot));
        let count = count.min(self.orders.len());
        for Order { what, queue } in self.orders.drain(..count) {
            match what {
                What::Begin(Begin { wanted, kept, slot }) => {
                    queue.answer(Item::Begun);
                    self.has_new_stacks |= kept.lines.native;
                    self.all.push(Subscription {
                        queue,
                        scope: Scope::new(wanted),
                        kept,
                        slot,
                        named: HashSet::new(),
                        before: (losses.clone(), stats),
                    });
                }
                // Carried out at once.
                What::Python(_) => {}
                What::All => {
                    if let Some(one) = self.all.iter().find(|one| one.is_of(&queue)) {
                        queue.answer(Item::All(one.sums(losses, stats)));
                    }
                }
                What::End(reason) => {
                    if let Some(place) = self.all.iter().position(|one| one.is_of(&queue)) {
                        let one = self.all.swap_remove(place);
                        queue.answer(Item::End(one.sums(losses, stats), reason));
                        self.ended.extend(one.slot);
                    }
                }
            }
        }
    }

    /// Has an interpreter of a process put to use, if the recording of `queue` has lines of it, and tells all recordings that have.
    /// `put` is handed whether that recording has them now.
    pub fn python<E>(
        &self,
        queue: &Arc<Queue>,
        interpreter: &Interpreter,
        put: impl FnOnce(&dyn Fn() -> bool) -> Result<Option<(u64, Option<u64>)>, E>,
    ) -> Result<(), E> {
        let Interpreter { pid, start, .. } = *interpreter;
        let has_lines = |one: &&Subscription| {
            let about = || targets::identify(pid).filter(|about| about.start_boottime == start);
            one.kept.lines.python && about().is_some_and(|about| one.scope.has_now(pid, &about))
        };
        let asks = self.all.iter().find(|one| one.is_of(queue));
        let tell = |queue: &Queue, number, replaces| {
            queue.answer(Item::Python(Numbered {
                pid,
                number,
                replaces,
            }));
        };
        match put(&|| asks.as_ref().is_some_and(has_lines))? {
            None => tell(queue, None, None),
            Some((number, replaces)) => {
                let others = self.all.iter().filter(|one| !one.is_of(queue));
                let others = others.filter(has_lines).map(|one| &one.queue);
                let told = others.chain([queue]);
                told.for_each(|queue| tell(queue, Some(number), replaces));
            }
        }
        Ok(())
    }

    /// Ends all: everything that was done has been handed on.
    pub fn end(&mut self, reason: &str, losses: &Losses, stats: Stats) {
        for one in self.all.drain(..) {
            let sums = one.sums(losses, stats);
            one.queue.answer(Item::End(sums, Some(reason.into())));
        }
    }

    /// Whether the kernel is to send stacks again.
    pub fn take_new_stacks(&mut self) -> bool {
        std::mem::take(&mut self.has_new_stacks)
    }

    /// Files whose names the kernel is to send again.
    pub fn take_told_from_memory(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.told_from_memory)
    }

    fn end_of_drain(&mut self) {
        if std::mem::take(&mut self.is_counting) {
            self.all.iter_mut().for_each(|one| one.scope.end_of_drain());
        }
    }
}

impl Subscription {
    fn is_of(&self, queue: &Arc<Queue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Hands on the events that are of its processes. Before a name is moved or removed, its file must have it.
    fn events(&mut self, events: &[Event], model: &Model, from_memory: &mut Vec<FileId>) {
        let mut told = Vec::new();
        // The model does not have these names yet.
        let mut latest: HashMap<&[u8], &FileName> = HashMap::new();
        for event in events {
            let is_told = match event {
                Event::File(name) => {
                    latest.insert(&name.path, name);
                    self.named.contains(&name.file)
                }
                Event::NegativeLookup { .. } if !self.kept.negative_lookups => false,
                event => self.scope.event(event),
            };
            if !is_told {
                continue;
            }
            let moved: [&[u8]; 2] = match event {
                Event::Rename { from, to, .. } => [from, to],
                Event::Unlink { path, .. } => [path, &[]],
                _ => [&[], &[]],
            };
            for path in moved.into_iter().filter(|path| !path.is_empty()) {
                let known = || model.find_path(path).map(|file| file.name());
                let name = latest.get(path).map(|name| (*name).clone());
                if let Some(name) = name.or_else(known)
                    && self.named.insert(name.file)
                {
                    from_memory.push(name.file);
                    told.push(Event::File(name));
                }
            }
            told.push(event.clone());
        }
        if !told.is_empty() {
            self.queue.batch(Batch::Events(told));
        }
    }

    /// Hands on the counters that are of its processes, and before them the names of files that it does not have yet.
    fn counters(&mut self, batch: &Batch, model: &Model, from_memory: &mut Vec<FileId>) {
        if !batch.is_of(self.kept) {
            return;
        }
        if let Batch::WaitRecords(records) = batch {
            let pids = self.scope.pids();
            let is_wanted = |process| self.scope.has(process, model);
            let part = records.part(is_wanted, |pid| pids.contains(&pid));
            return self.queue.batch(Batch::WaitRecords(part));
        }
        let mut names = Vec::new();
        let (scope, named) = (&mut self.scope, &mut self.named);
        let part = batch.part(|process: ProcessId, file: FileId| {
            if !scope.has(process, model) {
                return false;
            }
            if !file.is_none()
                && named.insert(file)
                && let Some(known) = model.find_file(file).filter(|file| !file.path.is_empty())
            {
                names.push(Event::File(known.name()));
                from_memory.push(file);
            }
            true
        });
        if !names.is_empty() {
            self.queue.batch(Batch::Events(names));
        }
        if let Some(part) = part {
            self.queue.batch(part);
        }
    }

    /// Losses of the machine and of this subscriber since it began, and the cost of draining since then.
    fn sums(&self, losses: &Losses, stats: Stats) -> Sums {
        let (before, earlier) = &self.before;
        let mut losses = losses::since(losses, before);
        let lost = self.queue.lost();
        let own = [
            (diag::LOST_OPERATIONS, lost.operations),
            (diag::LOST_BYTES, lost.bytes),
            (diag::EVENTS_DROPPED, lost.events),
            (diag::WAITS_LOST, lost.waits),
            (diag::LINES_UNSENT, lost.line_records),
            (diag::LINES_LOST, lost.line_counts),
            (diag::PRIVILEGED, self.scope.left_out()),
        ];
        for (reason, count) in own {
            *losses
                .entry(diag::NAMES[reason as usize].into())
                .or_default() += count;
        }
        Sums {
            losses,
            drains: stats.since(earlier),
        }
    }
}

#[cfg(test)]
mod tests;
