//! Source text of the lines that were found.
//!
//! A recording names files as the traced program names them, which may name any. So a file is read while the program runs, in
//! the program's root directory and with its rights, and only a regular file. It must not have changed since the program
//! began: else its lines may be others than those that ran, and it has no text.
//!
//! A separate thread reads: storage can keep it waiting, and it gives up rights.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use iotrace_model::{host, lines::Place, sources::SourceLine};

use super::reader::{Failure, Reader, Text, lines_around};

/// Lines that are looked for, of all files together.
const MAX_LINES: usize = 10_000;
/// Files that are kept in memory, bytes.
const MAX_CACHE: usize = 64 << 20;
/// How long the reader is waited for at the end.
const READER_TIMEOUT: Duration = Duration::from_secs(2);
/// By what a file's time may be earlier than its change: filesystems take it from a clock that ticks.
const CLOCK_TICK_NS: i64 = 100_000_000;

/// A process, by its pid and its start since boot, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub pid: u32,
    pub start: u64,
}

/// What is asked of the reader.
struct Wanted {
    /// Processes that see the file: the first that still runs is asked.
    by: [Running; 2],
    file: Arc<str>,
    line: u32,
    /// When the program began that ran it, nanoseconds since the Unix epoch.
    began: i64,
}

/// What it answers.
struct Answer {
    file: Arc<str>,
    /// Of the program for which it was read.
    began: i64,
    read: Result<Read, Failure>,
}

/// What is read of a file.
struct Read {
    /// Its last change, nanoseconds since the Unix epoch.
    changed: i64,
    /// The line that was wanted and those next to it, by number.
    lines: Vec<(u32, String)>,
}

/// The reader, and files that it has read.
struct Cache {
    reader: Reader,
    /// With the start of the program for which each was read.
    files: HashMap<Arc<str>, (i64, Text)>,
    /// Of all of them.
    bytes: usize,
}

impl Cache {
    fn answer(&mut self, wanted: &Wanted) -> Answer {
        let known = self.files.get(&wanted.file);
        // A later program may have run another file.
        if let Some((began, text)) = known.filter(|(began, _)| *began >= wanted.began) {
            return answer(wanted, *began, Ok(text));
        }
        let mut read = Err(Failure::Ended);
        for process in wanted.by {
            read = self.reader.read(process, &wanted.file);
            if read.as_ref().err() != Some(&Failure::Ended) {
                break;
            }
        }
        let answered = answer(
            wanted,
            wanted.began,
            read.as_ref().map_err(|failure| *failure),
        );
        if let Ok(text) = read {
            self.keep(wanted, text);
        }
        answered
    }

    fn keep(&mut self, wanted: &Wanted, text: Text) {
        if let Some((_, old)) = self.files.remove(&wanted.file) {
            self.bytes -= old.bytes.len();
        }
        if self.bytes + text.bytes.len() <= MAX_CACHE {
            self.bytes += text.bytes.len();
            self.files.insert(wanted.file.clone(), (wanted.began, text));
        }
    }
}

fn answer(wanted: &Wanted, began: i64, text: Result<&Text, Failure>) -> Answer {
    let read = text.and_then(|text| {
        Ok(Read {
            changed: text.changed,
            lines: lines_around(&text.bytes, wanted.line).ok_or(Failure::Refused)?,
        })
    });
    Answer {
        file: wanted.file.clone(),
        began,
        read,
    }
}

/// What is known of a file.
#[derive(Debug)]
struct Known {
    /// When the programs began that ran it, nanoseconds since the Unix epoch, and whether it was read since then.
    programs: BTreeMap<i64, bool>,
    /// Its last change, as far as it was read, in the same.
    changed: i64,
    /// Lines that were asked for.
    lines: BTreeSet<u32>,
    /// Whether it has no text: it changed, or could not be read.
    is_refused: bool,
}

impl Known {
    /// Whether it may have changed since the first program began.
    fn is_changed(&self) -> bool {
        let first = self.programs.first_key_value();
        first.is_some_and(|(began, _)| self.changed > began - CLOCK_TICK_NS)
    }

    /// Takes a program down; whether it is a new one.
    fn meet(&mut self, began: i64) -> bool {
        let is_new = !self.programs.contains_key(&began);
        self.programs.entry(began).or_insert(false);
        is_new
    }

    /// It was read after a program began, and so after those before it.
    fn was_read(&mut self, began: i64) {
        let before = self.programs.range_mut(..=began);
        before.for_each(|(_, was_read)| *was_read = true);
    }
}

/// The source text of a run.
pub struct Sources {
    ask: SyncSender<Wanted>,
    answers: Receiver<Answer>,
    /// Asked for, and not answered.
    waiting: usize,
    /// What is added to a time since boot to have it since the Unix epoch, nanoseconds.
    boot_unix_ns: i64,
    files: HashMap<Arc<str>, Known>,
    count: usize,
    news: Vec<SourceLine>,
}

impl Sources {
    /// Starts the reader; `None` if it cannot be started, or not without rights that it must not have.
    pub fn start() -> Option<Self> {
        let clock = host::clock().ok()?;
        let (ask, wanted) = sync_channel::<Wanted>(MAX_LINES);
        let (give, answers) = sync_channel(MAX_LINES);
        let read = move || {
            let Some(reader) = Reader::new() else {
                return;
            };
            let mut cache = Cache {
                reader,
                files: HashMap::new(),
                bytes: 0,
            };
            while let Ok(wanted) = wanted.recv() {
                if give.send(cache.answer(&wanted)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("iotrace-sources".into());
        thread.spawn(read).ok()?;
        Some(Self {
            ask,
            answers,
            waiting: 0,
            boot_unix_ns: clock.realtime_minus_boottime_ns,
            files: HashMap::new(),
            count: 0,
            news: Vec::new(),
        })
    }

    /// Asks for a line of a program that began with the process `program`, and which `by` ran.
    pub fn want(&mut self, place: &Place, by: Running, program: Running) {
        // Names that do not begin at the root depend on where the program was; `<string>` is no file.
        if !place.file.starts_with('/') {
            return;
        }
        let began = self.boot_unix_ns.saturating_add_unsigned(program.start);
        let known = self.files.entry(place.file.clone());
        let known = known.or_insert_with(|| Known {
            programs: BTreeMap::new(),
            changed: i64::MIN,
            lines: BTreeSet::new(),
            is_refused: false,
        });
        let is_new = known.meet(began);
        if known.is_changed() {
            refuse(&place.file, known, &mut self.news);
        }
        let is_known = known.lines.contains(&place.line);
        if is_known && (!is_new || known.is_refused) || self.count >= MAX_LINES {
            return;
        }
        self.count += 1;
        known.lines.insert(place.line);
        if known.is_refused {
            return self.news.push(without_text(&place.file, place.line));
        }
        let wanted = Wanted {
            by: [by, program],
            file: place.file.clone(),
            line: place.line,
            began,
        };
        if self.ask.try_send(wanted).is_ok() {
            self.waiting += 1;
        }
    }

    /// What was read since it was last asked; `last`: waits for what has been asked for.
    pub fn take(&mut self, last: bool) -> Vec<SourceLine> {
        let deadline = Instant::now() + READER_TIMEOUT;
        while self.waiting > 0 {
            let left = match last {
                true => deadline.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let Ok(answer) = self.answers.recv_timeout(left) else {
                break;
            };
            self.waiting -= 1;
            self.answered(answer);
        }
        if last {
            // A program that ended at once may have run another file.
            for (file, known) in &mut self.files {
                if known.programs.values().any(|was_read| !was_read) {
                    refuse(file, known, &mut self.news);
                }
            }
        }
        std::mem::take(&mut self.news)
    }

    fn answered(&mut self, answer: Answer) {
        let Answer { file, began, read } = answer;
        let Some(known) = self.files.get_mut(&file) else {
            return;
        };
        let read = match read {
            Ok(read) => read,
            // Another program may tell.
            Err(Failure::Ended) => return,
            Err(Failure::Refused) => return refuse(&file, known, &mut self.news),
        };
        known.was_read(began);
        known.changed = known.changed.max(read.changed);
        if known.is_changed() {
            return refuse(&file, known, &mut self.news);
        }
        if known.is_refused {
            return;
        }
        let lines = read.lines.into_iter().map(|(line, text)| SourceLine {
            file: file.clone(),
            line,
            text: Some(text.into()),
        });
        self.news.extend(lines);
    }
}

/// Takes the text of a file's lines back.
fn refuse(file: &Arc<str>, known: &mut Known, news: &mut Vec<SourceLine>) {
    if !known.is_refused {
        known.is_refused = true;
        let lines = known.lines.iter();
        news.extend(lines.map(|line| without_text(file, *line)));
    }
}

fn without_text(file: &Arc<str>, line: u32) -> SourceLine {
    SourceLine {
        file: file.clone(),
        line,
        text: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Sources whose reader is the test.
    fn sources() -> (Sources, Receiver<Wanted>, SyncSender<Answer>) {
        let (ask, wanted) = sync_channel(8);
        let (give, answers) = sync_channel(8);
        let sources = Sources {
            ask,
            answers,
            waiting: 0,
            boot_unix_ns: 100 * SECOND,
            files: HashMap::new(),
            count: 0,
            news: Vec::new(),
        };
        (sources, wanted, give)
    }

    fn place(file: &str, line: u32) -> Place {
        Place {
            file: file.into(),
            line,
            function: "f".into(),
        }
    }

    /// A process that began this many seconds after boot.
    fn running(seconds: u64) -> Running {
        Running {
            pid: 7,
            start: seconds * SECOND as u64,
        }
    }

    /// An answer with one line, of a file that changed at that second.
    fn read(line: u32, changed: i64) -> Answer {
        Answer {
            file: "/a.py".into(),
            began: 0,
            read: Ok(Read {
                changed: changed * SECOND,
                lines: vec![(line, "open()".to_owned())],
            }),
        }
    }

    /// The lines that are told, with whether they have a text.
    fn told(sources: &mut Sources) -> Vec<(u32, bool)> {
        let told = sources.take(false).into_iter();
        told.map(|line| (line.line, line.text.is_some())).collect()
    }

    #[test]
    fn a_file_from_before_the_program_has_text() {
        let (mut sources, wanted, give) = sources();
        for name in ["<string>", "a.py", ""] {
            sources.want(&place(name, 1), running(10), running(10));
        }
        sources.want(&place("/a.py", 1), running(12), running(10));
        sources.want(&place("/a.py", 1), running(12), running(10));
        let asked: Vec<_> = wanted.try_iter().map(|one| (one.by, one.line)).collect();
        assert_eq!(asked, [([running(12), running(10)], 1)]);
        give.send(read(1, 109)).unwrap();
        assert_eq!(told(&mut sources), [(1, true)]);
        assert_eq!(told(&mut sources), []);
    }

    #[test]
    fn a_file_that_changed_has_none() {
        let (mut sources, wanted, give) = sources();
        sources.want(&place("/a.py", 1), running(10), running(10));
        sources.want(&place("/a.py", 2), running(10), running(10));
        give.send(read(1, 109)).unwrap();
        give.send(read(2, 110)).unwrap();
        // The first is taken back.
        assert_eq!(told(&mut sources), [(1, true), (1, false), (2, false)]);
        sources.want(&place("/a.py", 3), running(10), running(10));
        assert_eq!(told(&mut sources), [(3, false)]);
        assert_eq!(wanted.try_iter().count(), 2, "the third is not read");
    }

    #[test]
    fn a_program_from_before_the_change_takes_the_text_back() {
        let (mut sources, _wanted, give) = sources();
        sources.want(&place("/a.py", 1), running(10), running(10));
        give.send(read(1, 105)).unwrap();
        assert_eq!(told(&mut sources), [(1, true)]);
        sources.want(&place("/a.py", 1), running(20), running(20));
        assert_eq!(told(&mut sources), []);
        sources.want(&place("/a.py", 1), running(20), running(3));
        assert_eq!(told(&mut sources), [(1, false)]);
    }

    /// As [`read`], for a program that began at that second.
    fn read_for(program: u64, line: u32, changed: i64) -> Answer {
        Answer {
            began: 100 * SECOND + running(program).start as i64,
            ..read(line, changed)
        }
    }

    #[test]
    fn a_later_program_may_have_run_another_file() {
        let (mut sources, wanted, give) = sources();
        sources.want(&place("/a.py", 1), running(10), running(10));
        give.send(read_for(10, 1, 105)).unwrap();
        sources.want(&place("/a.py", 1), running(20), running(20));
        give.send(read_for(20, 1, 105)).unwrap();
        assert_eq!(told(&mut sources), [(1, true), (1, true)]);
        sources.want(&place("/a.py", 1), running(30), running(30));
        give.send(read_for(30, 1, 125)).unwrap();
        assert_eq!(told(&mut sources), [(1, false)]);
        assert_eq!(wanted.try_iter().count(), 3);
    }

    #[test]
    fn a_program_that_ended_at_once_is_answered_for_by_a_later_one_alone() {
        for is_read_later in [true, false] {
            let (mut sources, _wanted, give) = sources();
            sources.want(&place("/a.py", 1), running(10), running(10));
            give.send(read_for(10, 1, 105)).unwrap();
            sources.want(&place("/a.py", 1), running(20), running(20));
            let ended = Answer {
                read: Err(Failure::Ended),
                ..read_for(20, 1, 0)
            };
            give.send(ended).unwrap();
            assert_eq!(told(&mut sources), [(1, true)]);
            if is_read_later {
                sources.want(&place("/a.py", 1), running(30), running(30));
                give.send(read_for(30, 1, 105)).unwrap();
                assert_eq!(told(&mut sources), [(1, true)]);
            }
            let rest = sources.take(true);
            assert_eq!(rest.is_empty(), is_read_later, "{rest:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_read_has_no_text() {
        let (mut sources, _wanted, give) = sources();
        sources.want(&place("/a.py", 1), running(10), running(10));
        let refused = Answer {
            read: Err(Failure::Refused),
            ..read(1, 0)
        };
        give.send(refused).unwrap();
        assert_eq!(told(&mut sources), [(1, false)]);
    }
}
