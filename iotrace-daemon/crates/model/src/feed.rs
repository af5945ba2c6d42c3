//! What the model is fed with: samples and events of the kernel side, and what the reader of a recording knows.

use iotrace_common::{
    block::Transfers,
    key::FileId,
    library::{CallKey, Calls},
    nobtf::STATUS_UNKNOWN,
};

use super::{
    About, FailureCount, FailureKey, IoTotals, Model, PhaseSet,
    block::Owner,
    computing::CpuTime,
    counters::{Counters, FIRST_OPERATION, LAST_OPERATION, RENAMES, UNLINKS},
    environ::Role,
    input::{Event, FileName, Place, ProcessId, Searched},
    latencies::{Histogram, Operations},
    library,
    lines::{self, Lined},
    mounts::{Mount, Mounts},
    waits::{self, Waited},
};

impl Model {
    /// Adds one sample: what `process` did at `place` since the sample before, in a phase that the kernel side sorted it
    /// into ([`phases::ByPhase`]).
    pub fn add_sorted(
        &mut self,
        process: ProcessId,
        place: Place,
        phase: u32,
        counters: &Counters,
    ) {
        let index = self.processes.intern(process);
        let by_phase = &mut self.processes.get_mut(index).phases;
        by_phase.add(phase, &IoTotals::of(counters));
        let file = self.add_at(index, place, counters);
        if let Some(file) = file {
            self.files.sorted(file, phase);
        }
    }

    /// Adds to one use of a file by a process ([`spans`]), where they are kept.
    pub fn add_span(&mut self, process: ProcessId, file: FileId, number: u32, counters: &Counters) {
        let Some(spans) = &mut self.spans else { return };
        let (process, file) = (self.processes.intern(process), self.files.intern(file));
        spans.add(process, file, number, counters);
    }

    /// As [`Model::add_sorted`], of a sample whose phases are added separately.
    pub fn add(&mut self, process: ProcessId, place: Place, counters: &Counters) {
        let index = self.processes.intern(process);
        self.add_at(index, place, counters);
    }

    /// Adds what a process did in a phase, and nothing else.
    pub fn add_done(&mut self, process: ProcessId, phase: u32, done: &IoTotals) {
        let index = self.processes.intern(process);
        self.processes.get_mut(index).phases.add(phase, done);
    }

    /// Adds a sample of the process at `index`; its file.
    fn add_at(&mut self, index: u32, place: Place, counters: &Counters) -> Option<u32> {
        self.io_totals.add(&IoTotals::of(counters));
        let entry = self.processes.get_mut(index);
        match place {
            Place::File(file) => {
                let file = self.files.intern(file);
                self.rows.add(index, file, counters);
                return Some(file);
            }
            Place::PathOnly => {
                entry.path_only.add(counters);
                self.apply_moves(index, RENAMES);
                self.apply_moves(index, UNLINKS);
            }
            Place::Overflow => entry.overflow.add(counters),
        }
        None
    }

    /// Adds failed calls of operation class `op` with error `errno`; the counters count them as failures, too.
    pub fn add_failures(
        &mut self,
        process: ProcessId,
        place: Place,
        op: u32,
        errno: u32,
        calls: u64,
        ns: u64,
    ) {
        let process = self.processes.intern(process);
        let place = place.map(|file| {
            let file = self.files.intern(file);
            self.rows.intern(process, file);
            file
        });
        self.failures.add(
            FailureKey {
                process,
                place,
                op,
                errno,
            },
            FailureCount { calls, ns },
        );
    }

    /// Adds negative look-ups of a process in a directory; they are counted among the failures, too.
    pub fn add_negative_lookups(
        &mut self,
        process: ProcessId,
        searched: Searched,
        count: FailureCount,
    ) {
        let process = self.processes.intern(process);
        self.negative_lookups.add(process, searched, count);
    }

    /// The same of a directory's path; the empty one is not known.
    pub fn add_negative_lookups_at(
        &mut self,
        process: ProcessId,
        path: &[u8],
        count: FailureCount,
    ) {
        let process = self.processes.intern(process);
        self.negative_lookups.add_at(process, path, count);
    }

    /// Adds calls of a library, by a thread.
    pub fn add_library_calls(&mut self, key: &CallKey, calls: &Calls) {
        let process = self.processes.intern(key.into());
        let file = (!key.file.is_none()).then(|| self.files.intern(key.file));
        self.libraries
            .add(process, key.function as u16, file, key.object, calls);
    }

    /// The same as a recording has it: with the name of the file, as the library was given it, and that of the object.
    pub fn restore_library_calls(
        &mut self,
        process: ProcessId,
        function: u16,
        file: Option<FileId>,
        names: (Vec<u8>, Vec<u8>),
        calls: &Calls,
    ) {
        let process = self.processes.intern(process);
        let file = file.map(|file| self.files.intern(file));
        let object = self.libraries.restore_object(process, names);
        self.libraries.add(process, function, file, object, calls);
    }

    /// Takes a range of a recording; its process.
    pub fn restore_range(&mut self, process: ProcessId, range: library::Range) {
        let process = self.processes.intern(process);
        self.libraries
            .restore_range(library::Range { process, ..range });
    }

    /// Takes an event of the kernel side.
    pub fn event(&mut self, event: Event) {
        match event {
            Event::File(name) => self.files.name(&name),
            Event::Exe { process, path } => {
                self.processes.update(process, |about| about.exe = path)
            }
            Event::Environment { process, variables } => self.processes.update(process, |about| {
                about.role = Role::of(&variables);
            }),
            // For those that sort processes into units.
            Event::Cgroup { .. } => {}
            Event::Exec {
                process,
                start_boottime,
                parent,
                rights,
                comm,
                args,
            } => {
                self.processes.describe(process, |about| {
                    about.start_boottime = start_boottime;
                    about.parent = parent;
                    about.uid = Some(rights.uid);
                    about.rights = Some(rights);
                    about.comm = comm;
                    about.args = args;
                    about.execs += 1;
                });
            }
            Event::Fork {
                parent,
                child,
                child_start_boottime,
                rights,
                comm,
            } => {
                self.processes
                    .fork(parent, child, child_start_boottime, rights, comm);
            }
            Event::Exit {
                process,
                time,
                status,
            } => self.processes.update(process, |about| {
                about.end = Some(time);
                about.status = (status != STATUS_UNKNOWN).then_some(status);
            }),
            Event::Rename {
                process,
                time,
                from,
                to,
                exchange,
            } => {
                let file = if exchange {
                    self.files.exchange(&from, &to)
                } else {
                    self.files.rename(&from, &to)
                };
                self.move_count(process, RENAMES, file, time);
            }
            // What becomes of it is the kernel side's.
            Event::Mapped { .. } => {}
            Event::Object {
                process,
                object,
                parent,
                name,
            } => {
                let process = self.processes.intern(process);
                self.libraries.name(process, object, parent, name);
            }
            Event::Mark {
                process,
                tid,
                time,
                function,
                name,
                progress,
            } => {
                let process = self.processes.intern(process);
                self.libraries
                    .mark((process, tid), function, time, name, progress);
            }
            Event::NegativeLookup { searched, path, .. } => {
                self.negative_lookups.name(searched, path)
            }
            Event::Unlink {
                process,
                time,
                path,
            } => {
                let file = self.files.unlink(&path);
                self.move_count(process, UNLINKS, file, time);
            }
        }
    }

    /// Describes a process that existed before the trace. What events said of it is kept.
    pub fn describe_process(&mut self, process: ProcessId, about: About) {
        let index = self.processes.intern(process);
        if !self.processes.get_mut(index).described {
            self.processes.describe(process, |known| {
                *known = About {
                    end: known.end,
                    status: known.status,
                    ..about
                };
            });
        }
    }

    /// Adds what a process had of CPU time.
    pub fn add_cpu(&mut self, process: ProcessId, time: &CpuTime) {
        let index = self.processes.intern(process);
        self.computing.add(index, time);
    }

    /// Adds bytes moved between devices and a file.
    pub fn add_transfers(
        &mut self,
        process: Option<ProcessId>,
        file: Option<FileId>,
        transfers: &Transfers,
    ) {
        let owner = Owner {
            process: process.map(|process| self.processes.intern(process)),
            file: file.map(|file| self.files.intern(file)),
        };
        self.block.add_transfers(owner, transfers);
    }

    /// Adds time of the main thread of a process, nanoseconds.
    pub fn add_waited(&mut self, waited: &Waited) {
        let key = waits::Key {
            process: self.processes.intern(waited.process),
            leaf: waited.leaf,
            by: waited.by.map(|by| self.processes.intern(by)),
            file: waited.file.map(|file| self.files.intern(file)),
            phase: waited.phase,
        };
        self.waits.add(key, waited.ns);
    }

    /// Adds how long operations of a process took.
    pub fn add_latencies(&mut self, process: ProcessId, of: Operations, done: &Histogram) {
        let process = self.processes.intern(process);
        self.latencies.add(process, of, done);
    }

    /// Adds what a recording says of operations of a process: how many were in a bucket, and the longest of all, nanoseconds.
    pub fn restore_latencies(
        &mut self,
        process: ProcessId,
        of: Operations,
        (bucket, calls): (u8, u64),
        longest: u64,
    ) {
        let process = self.processes.intern(process);
        self.latencies.restore(process, of, bucket, calls, longest);
    }

    /// Adds what was done by a line.
    pub fn add_lined(&mut self, lined: &Lined) {
        let key = lines::Key {
            process: self.processes.intern(lined.process),
            own: lined.own.clone(),
            via: lined.via.clone(),
            phase: lined.phase,
        };
        self.lines.add(key, &lined.counts);
    }

    /// Takes the path of a file of which a recording says nothing else, unless it has one.
    pub fn restore_path(&mut self, file: FileId, path: &[u8]) {
        self.files.name_if_unknown(file, path);
    }

    /// Takes what a recording says of a process; a later part of it knows better.
    pub fn restore_process(&mut self, process: ProcessId, about: About) {
        self.processes.describe(process, |known| *known = about);
    }

    /// Takes what a recording says of a file; a later part of it knows better. `phases`: those that it was used in.
    pub fn restore_file(&mut self, name: &FileName, opened_as: Option<&[u8]>, phases: PhaseSet) {
        self.files.restore(name, opened_as, phases);
    }

    /// Takes a mount of a recording.
    pub fn restore_mount(&mut self, mount: Mount) {
        self.own_mounts().insert(mount);
    }

    /// Forgets the mounts that are not in this text and that no known file is on.
    pub fn forget_mounts(&mut self, mountinfo: &[u8]) {
        let used: std::collections::HashSet<u32> = (0..self.file_count() as u32)
            .map(|file| self.file(file).id.device)
            .collect();
        self.own_mounts()
            .forget(mountinfo, |device| used.contains(&device));
    }

    /// Takes the text of a mountinfo file; mounts seen before stay.
    pub fn update_mounts(&mut self, mountinfo: &[u8]) {
        self.own_mounts().update(mountinfo);
    }

    fn own_mounts(&mut self) -> &mut Mounts {
        if self.mounts.is_empty() {
            self.mounts.push(Mounts::default());
        }
        &mut self.mounts[0]
    }

    fn move_count(&mut self, process: ProcessId, counter: usize, file: Option<u32>, time: u64) {
        let Some(file) = file else { return };
        let process = self.processes.intern(process);
        self.moves.push(process, counter, (file, time));
        self.apply_moves(process, counter);
    }

    fn apply_moves(&mut self, process: u32, counter: usize) {
        let wanted = self.moves.wanted(process, counter);
        if wanted == 0 {
            return;
        }
        let taken = self
            .processes
            .get_mut(process)
            .path_only
            .take(counter, wanted);
        for (file, time) in self.moves.take(process, counter, taken) {
            let mut counters = Counters::ZERO;
            counters.v[counter] = 1;
            counters.v[FIRST_OPERATION] = time;
            counters.v[LAST_OPERATION] = time;
            self.rows.add(process, file, &counters);
            if let Some(spans) = self.spans.as_mut().filter(|_| counter == RENAMES) {
                spans.add_rename(process, file, time);
            }
        }
    }
}
