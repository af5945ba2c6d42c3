//! What clients of the socket ask and order: drains, answers, recordings.

use std::collections::VecDeque;

use super::Daemon;
use crate::live;
use iotrace_model::{host, targets};
use iotrace_service::{
    snapshot::Snapshot,
    socket::protocol::{Code, Interpreter, Refusal},
    subscriptions::{Order, What},
};
use iotrace_tracer::{drain::Stats, in_flight, kernel::KernelError};

/// A drain that was asked for: whether it ends an interval, and how many questions and orders it answers.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    pub ends_interval: bool,
    pub questions: usize,
    pub orders: usize,
    /// Logs that end with the interval.
    pub logs: usize,
}

impl Daemon {
    /// Asks for a drain, where clients wait for one.
    pub fn ask_for_clients(&mut self, asked: &mut VecDeque<Asked>) {
        let next = Asked {
            ends_interval: false,
            questions: self.waiting.len(),
            orders: self.subscriptions.waiting(),
            logs: 0,
        };
        if next.questions + next.orders > 0 {
            asked.push_back(next);
            self.ask();
        }
    }

    /// Asks for a drain.
    pub fn ask(&mut self) {
        if self.subscriptions.want(|kept| kept.cpu) {
            self.collector.ask();
        } else {
            self.collector.ask_for_counters();
        }
    }

    /// Takes an order of a recording. Before the drain that it begins after, more is kept of its processes.
    pub fn take_order(&mut self, mut order: Order) -> Result<(), KernelError> {
        if let What::Python(interpreter) = &order.what {
            let Interpreter { pid, python, .. } = *interpreter;
            let put = |may_look: &dyn Fn() -> bool| self.kernel.put_python(pid, python, may_look);
            return self.subscriptions.python(&order.queue, interpreter, put);
        }
        if let What::Begin(begin) = &mut order.what
            && begin.kept.is_more()
        {
            let wanted = &begin.wanted;
            let find = || wanted.find();
            let begun = self.kernel.begin_recording(begin.kept, find, wanted.follow);
            match begun {
                Ok(Some(slot)) => begin.slot = Some(slot),
                Ok(None) => {
                    let message = "the service keeps more of the processes of as many recordings as it can: wait until one has ended";
                    order.queue.refuse(Refusal::new(Code::Busy, message));
                    return Ok(());
                }
                Err(error) => {
                    log::warn!("a recording does not begin: {error}");
                    let message = format!("the recording does not begin: {error}");
                    order.queue.refuse(Refusal::new(Code::Failed, message));
                    return Ok(());
                }
            }
        }
        self.subscriptions.order(order);
        self.want_records();
        Ok(())
    }

    /// Has waits and operations read as long as somebody keeps them.
    pub fn want_records(&mut self) {
        let waits = self.waits.is_some() || self.subscriptions.want(|kept| kept.waits);
        if std::mem::replace(&mut self.are_waits_wanted, waits) != waits {
            self.collector.want_waits(waits);
        }
        let operations = self.subscriptions.want(|kept| kept.trace);
        if std::mem::replace(&mut self.are_operations_wanted, operations) != operations {
            self.collector.want_operations(operations);
        }
    }

    /// Carries out the orders that came first, and has names sent again that recordings were told from memory.
    pub fn carry_out(&mut self, count: usize, stats: Stats) -> Result<(), KernelError> {
        if count > 0 || self.subscriptions.count() > 0 {
            let losses = self.kernel.losses()?;
            self.subscriptions.carry_out(count, &losses, stats);
        }
        for slot in self.subscriptions.take_ended() {
            self.kernel.end_recording(slot)?;
        }
        if self.subscriptions.take_new_stacks() {
            self.kernel.send_stacks_again()?;
        }
        self.want_records();
        let names = self.subscriptions.take_told_from_memory();
        self.kernel.forget_names_of(&names)
    }

    /// Answers the questions that came first.
    pub fn answer(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        // Processes that were there before.
        live::describe(&mut self.model, targets::identify);
        let now = host::realtime().unwrap_or(0);
        let in_flight = in_flight::of_all(&self.kernel.in_flight(), &self.model, &self.clock);
        for question in self.waiting.drain(..count).collect::<Vec<_>>() {
            let whom = (question.pid, question.client);
            let snapshot = self.families.snapshot(&self.model, whom, &in_flight);
            let snapshot = snapshot.map(|snapshot| Snapshot {
                time_unix_ns: now,
                since_unix_ns: self.since(question.pid),
                ..snapshot
            });
            // Who asked may have gone.
            let _ = question.reply.send(snapshot);
        }
    }

    /// From when on a process is counted, nanoseconds since the Unix epoch.
    fn since(&self, pid: u32) -> i64 {
        let start = targets::identify(pid).map_or(0, |about| {
            self.clock.unix_ns_of_boottime(about.start_boottime)
        });
        start.max(self.started_unix_ns)
    }
}
