//! The states of threads: when each ran, waited and for what, with an arrow from the thread that woke it. Of recordings
//! that have a timeline.

use std::{collections::HashMap, io, ops::Range};

use iotrace_model::{
    input::ProcessId,
    timeline::{Cause, Segment, by_thread},
};
use iotrace_recording::{Node, timeline};
use serde_json::{Value, json};

use super::{MOST_PIDS, micros, pids, thread_name};
use crate::Export;

/// Lanes of states lie behind those of threads.
const FIRST_LANE: u64 = 2 * MOST_PIDS;

/// A thread, and its segments among all of its node in order of time.
struct Thread {
    /// Track and lane.
    lane: (u64, u64),
    segments: Range<usize>,
}

/// The timeline of one node.
struct States<'a> {
    export: &'a Export<'a>,
    node: &'a Node,
    /// By process, thread and time; of selected processes.
    segments: Vec<Segment>,
    threads: Vec<Thread>,
    /// Threads by their number, which another thread may have had before.
    by_tid: HashMap<u32, Vec<usize>>,
}

/// Writes the states of all selected threads.
pub fn write(export: &Export<'_>, put: &mut impl FnMut(&Value)) -> io::Result<()> {
    // Most waits belong to no phase and no file.
    if export.is_by_phase() || export.is_by_file() {
        return Ok(());
    }
    let mut arrows = 0;
    for (number, node) in (0..).zip(export.nodes) {
        if node.run.timeline.is_some() {
            let states = States::read(export, number, node)?;
            states.write(&mut arrows, put);
        }
    }
    Ok(())
}

impl<'a> States<'a> {
    fn read(export: &'a Export<'a>, number: u32, node: &'a Node) -> io::Result<Self> {
        let tracks: HashMap<ProcessId, u64> = export
            .processes()
            .zip(pids(export))
            .filter(|(process, _)| process.node == number)
            .map(|(process, track)| (process.id, track))
            .collect();
        let mut segments = timeline::read(&node.directory).map_err(io::Error::other)?;
        segments.retain(|segment| tracks.contains_key(&segment.process));
        let mut threads: Vec<Thread> = Vec::new();
        let mut by_tid: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut start = 0;
        for chunk in by_thread(&mut segments) {
            let end = start + chunk.len();
            let lane = (
                tracks[&chunk[0].process],
                FIRST_LANE + u64::from(chunk[0].tid),
            );
            by_tid.entry(chunk[0].tid).or_default().push(threads.len());
            threads.push(Thread {
                lane,
                segments: start..end,
            });
            start = end;
        }
        Ok(Self {
            export,
            node,
            segments,
            threads,
            by_tid,
        })
    }

    /// Writes them. `arrows`: how many arrows there are so far, which numbers them.
    fn write(&self, arrows: &mut u64, put: &mut impl FnMut(&Value)) {
        for thread in &self.threads {
            let segments = &self.segments[thread.segments.clone()];
            let name = format!("state of thread {}", segments[0].tid);
            put(&thread_name(thread.lane, &name));
            for (index, segment) in segments.iter().enumerate() {
                self.wait(thread.lane, segment, put);
                self.span(thread.lane, "run queue", segment.woken..segment.on, put);
                let Some(next) = segments.get(index + 1) else {
                    break;
                };
                self.span(thread.lane, "running", segment.on..next.off, put);
                if segment.on < next.off
                    && let Some(waker) = self.waker(segment)
                {
                    self.arrow(waker, thread.lane, segment, *arrows, put);
                    *arrows += 1;
                }
            }
        }
    }

    /// What a thread waited for.
    fn wait(&self, lane: (u64, u64), segment: &Segment, put: &mut impl FnMut(&Value)) {
        if segment.cause == Cause::Born || segment.off == segment.woken {
            return;
        }
        let mut event = self.event(lane, segment.cause.name(), segment.off..segment.woken);
        if let Some(by) = segment.by {
            event["args"]["woken_by"] = by.into();
        }
        // An identity may be another file's on another node.
        let file = segment.file.filter(|_| self.export.nodes.len() == 1);
        if let Some(file) = file.and_then(|id| self.export.model.find_file(id)) {
            let path = self.export.names.path(file.path);
            event["args"]["file"] = String::from_utf8_lossy(&path).into();
        }
        put(&event);
    }

    fn span(&self, lane: (u64, u64), name: &str, time: Range<u64>, put: &mut impl FnMut(&Value)) {
        if !time.is_empty() {
            put(&self.event(lane, name, time));
        }
    }

    fn event(&self, (pid, tid): (u64, u64), name: &str, time: Range<u64>) -> Value {
        json!({
            "ph": "X",
            "cat": "state",
            "name": name.replace('_', " "),
            "pid": pid,
            "tid": tid,
            "ts": self.micros(time.start),
            "dur": micros((time.end - time.start) as i64),
            "args": {},
        })
    }

    /// The lane of the thread that woke another, or made it, if that was running then.
    fn waker(&self, segment: &Segment) -> Option<(u64, u64)> {
        let at = segment.woken;
        let runs = |thread: &&Thread| {
            let segments = &self.segments[thread.segments.clone()];
            let next = segments.partition_point(|one| one.on <= at);
            next > 0 && segments.get(next).is_some_and(|next| at < next.off)
        };
        let threads = self.by_tid.get(&segment.by?)?;
        let mut threads = threads.iter().map(|index| &self.threads[*index]);
        Some(threads.find(runs)?.lane)
    }

    /// From where the waker ran to where the woken thread runs.
    fn arrow(
        &self,
        waker: (u64, u64),
        woken: (u64, u64),
        segment: &Segment,
        number: u64,
        put: &mut impl FnMut(&Value),
    ) {
        let ends = [("s", waker, segment.woken), ("f", woken, segment.on)];
        for (kind, (pid, tid), at) in ends {
            let mut event = json!({
                "ph": kind,
                "cat": "wake",
                "name": "wake",
                "id": number,
                "pid": pid,
                "tid": tid,
                "ts": self.micros(at),
            });
            if kind == "f" {
                // Else it would lead to the span after the one that begins here.
                event["bp"] = "e".into();
            }
            put(&event);
        }
    }

    fn micros(&self, monotonic: u64) -> f64 {
        let unix_ns = self.node.run.clock.unix_ns(monotonic);
        micros(self.export.since_start(unix_ns))
    }
}
