//! The client's side of the service's socket: asks for a recording, and takes in what is counted.
//!
//! A thread reads, so that a slow disk here never lets the service wait.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::lines::RemoteLines;
use iotrace_model::{host, targets};
use iotrace_service::{
    config::DEFAULT_SOCKET,
    socket::protocol::{
        Answer, Ask, Begun, Numbered, Record, Refusal, Request, Sums, VERSION, Wish, line,
    },
};
use iotrace_tracer::drain::{Batch, Resolution, Traced, collector::Taken, wire::unpack};

/// Longest line of the service: losses by reason.
const LINE: u64 = 64 << 10;
/// Most bytes behind a line: all events that the kernel's ring buffer holds, and more.
const BYTES: u32 = 64 << 20;
/// Operations of the trace that wait to be taken in, at most; what comes then is lost, and counted.
const MOST_OPERATIONS: usize = 1 << 21;
/// Names the socket, where that is not at its usual place.
const PLACE: &str = "IOTRACE_SOCKET";

/// Where the service's socket is, unless a flag says so.
pub fn place() -> PathBuf {
    std::env::var_os(PLACE).map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
}

/// Asks the service at `path`.
pub fn ask(path: &Path, ask: Ask) -> anyhow::Result<BufReader<UnixStream>> {
    let mut stream = UnixStream::connect(path).with_context(|| {
        format!(
            "no service answers at {}: it must run (`iotrace daemon`) with `socket` set in its [recordings], you must be in \
             the socket's group, and `--socket` names it where it is elsewhere",
            path.display()
        )
    })?;
    let request = Request {
        iotrace: VERSION,
        ask,
    };
    // Who refuses without a look at the request may have closed already: what it said can still be read.
    let written = stream.write_all(&line(&request));
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(error).context("the service does not take a request");
    }
    Ok(BufReader::new(stream))
}

/// Reads one line of the service.
pub fn answer(reader: &mut BufReader<UnixStream>) -> anyhow::Result<Answer> {
    let mut text = Vec::new();
    let read = reader.take(LINE).read_until(b'\n', &mut text);
    read.context("the service has gone")?;
    if !text.ends_with(b"\n") {
        anyhow::bail!("the service has gone");
    }
    let answer = serde_json::from_slice(&text)
        .context("the service says what this iotrace does not know")?;
    match answer {
        Answer::Error { code, message } => Err(Refusal::new(code, message).into()),
        answer => Ok(answer),
    }
}

/// A recording that the service makes.
pub struct Remote {
    stream: UnixStream,
    heard: UnboundedReceiver<Heard>,
    /// As they were last said.
    sums: Sums,
    pub begun: Begun,
    over: Option<Over>,
    /// What threads waited for.
    waits: Resolution,
    keeps_waits: bool,
    /// Operations that were heard and not taken in.
    waiting: Arc<AtomicUsize>,
    /// What comes before what is heard next.
    resolved: VecDeque<Batch>,
}

/// How it ended.
enum Over {
    /// Well; for a reason of the service's, where it has one.
    Ended(Option<String>),
    /// What came after the last look is missing.
    Lost(String),
}

enum Heard {
    Batch(Batch),
    /// With the moment at which it was heard.
    All(Sums, u64),
    Over(Sums, Over),
}

impl Remote {
    /// Asks for a recording; returns when the processes are traced. `running`: those of them that run their programs already.
    pub fn start(path: &Path, record: Record, running: &[u32]) -> anyhow::Result<Self> {
        let (keeps_waits, lines) = (record.waits, record.kept().lines);
        let mut reader = ask(path, Ask::Record(record))?;
        let Answer::Begun(begun) = answer(&mut reader)? else {
            anyhow::bail!("the service does not begin with what it should");
        };
        let stream = reader.get_ref().try_clone()?;
        let (sender, heard) = unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let mut ear = Ear {
            lines: match lines.are_some() {
                true => Some(RemoteLines::new(lines, stream.try_clone()?)),
                false => None,
            },
            reader,
            heard: sender,
            waiting: Arc::clone(&waiting),
        };
        ear.look(running)?;
        std::thread::Builder::new()
            .name("iotrace-hear".into())
            .spawn(move || ear.hear())?;
        Ok(Self {
            stream,
            heard,
            sums: Sums::default(),
            begun,
            over: None,
            waits: Resolution::default(),
            keeps_waits,
            waiting,
            resolved: VecDeque::new(),
        })
    }

    /// Keeps each wait by itself, too.
    pub fn keep_timeline(&mut self) {
        self.waits.keep_timeline();
    }

    /// Asks for everything that was done until now.
    pub fn ask(&mut self) {
        self.say(Wish::All);
    }

    /// What comes next; `None` when nothing more does.
    pub async fn next(&mut self) -> Option<Taken> {
        loop {
            if let Some(batch) = self.resolved.pop_front() {
                return Some(Taken::Batch(batch));
            }
            match self.heard.recv().await? {
                Heard::Batch(Batch::WaitRecords(mut records)) => {
                    self.waits.take(&mut records);
                    self.resolved.extend(self.waits.batches());
                }
                Heard::Batch(Batch::Threads(look)) if self.keeps_waits => {
                    let in_calls = Batch::Waits(look.in_calls());
                    self.resolved.extend([in_calls, Batch::Threads(look)]);
                }
                Heard::Batch(Batch::Operations(traced)) => {
                    self.waiting
                        .fetch_sub(traced.operations.len(), Ordering::Relaxed);
                    return Some(Taken::Batch(Batch::Operations(traced)));
                }
                heard => return self.take(heard),
            }
        }
    }

    /// What was not counted, as it was last said.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Why it ended, where the client did not ask for it.
    pub fn reason(&self) -> Option<&str> {
        match self.over.as_ref()? {
            Over::Ended(reason) => reason.as_deref(),
            Over::Lost(reason) => Some(reason),
        }
    }

    /// Whether something is missing at its end.
    pub fn is_lost(&self) -> bool {
        matches!(self.over, Some(Over::Lost(_)))
    }

    /// Ends it; the rest goes to `take`.
    pub async fn end(&mut self, mut take: impl FnMut(Taken)) {
        self.say(Wish::Stop);
        while self.over.is_none()
            && let Some(taken) = self.next().await
        {
            take(taken);
        }
        self.waits.end();
        self.resolved.extend(self.waits.batches());
        self.resolved.drain(..).map(Taken::Batch).for_each(take);
    }

    fn take(&mut self, heard: Heard) -> Option<Taken> {
        match heard {
            Heard::Batch(batch) => Some(Taken::Batch(batch)),
            Heard::All(sums, until) => {
                let stats = sums.drains;
                self.sums = sums;
                Some(Taken::All { stats, until })
            }
            Heard::Over(sums, over) => {
                if !matches!(over, Over::Lost(_)) {
                    self.sums = sums;
                }
                self.over = Some(over);
                None
            }
        }
    }

    fn say(&mut self, wish: Wish) {
        // A service that has gone does not hear it, which `next` tells of.
        let _ = self.stream.write_all(&line(&wish));
    }
}

/// What the service says.
enum Said {
    Heard(Heard),
    /// To who finds lines.
    Python(Numbered),
}

/// Takes in what the service says.
struct Ear {
    reader: BufReader<UnixStream>,
    heard: UnboundedSender<Heard>,
    waiting: Arc<AtomicUsize>,
    /// Where the recording has lines.
    lines: Option<RemoteLines>,
}

impl Ear {
    /// Has the service told of the interpreters of these processes and their descendants, and waits until it has taken them.
    fn look(&mut self, running: &[u32]) -> anyhow::Result<()> {
        let Some(lines) = &mut self.lines else {
            return Ok(());
        };
        let found = targets::descendants(running);
        found.into_iter().for_each(|pid| lines.look(pid));
        while self.lines.as_ref().is_some_and(RemoteLines::are_asked) {
            let said = hear_one(&mut self.reader)?;
            self.take(said);
        }
        Ok(())
    }

    /// Takes in what comes until no more does.
    fn hear(mut self) {
        let mut is_over = false;
        while !is_over {
            let said = hear_one(&mut self.reader).unwrap_or_else(|error| {
                let over = Over::Lost(format!("{error:#}"));
                Said::Heard(Heard::Over(Sums::default(), over))
            });
            is_over = matches!(said, Said::Heard(Heard::Over(..)));
            self.take(said);
        }
    }

    fn take(&mut self, said: Said) {
        let heard = match (said, &mut self.lines) {
            (Said::Heard(heard), _) => heard,
            (Said::Python(numbered), Some(lines)) => return lines.number(numbered),
            (Said::Python(_), None) => return,
        };
        // The other end is there until the recording is over.
        let send = |what| drop(self.heard.send(what));
        match (heard, &mut self.lines) {
            (Heard::Batch(Batch::Operations(traced)), _) => {
                let traced = bounded(traced, &self.waiting);
                send(Heard::Batch(Batch::Operations(traced)));
            }
            (Heard::Batch(batch), Some(lines)) => {
                lines.take(batch).map(Heard::Batch).for_each(send);
            }
            (over @ Heard::Over(..), Some(lines)) => {
                lines.news(true).map(Heard::Batch).for_each(send);
                send(over);
            }
            (heard, _) => send(heard),
        }
    }
}

/// The operations, counted as lost where too many wait.
fn bounded(traced: Traced, waiting: &AtomicUsize) -> Traced {
    let count = traced.operations.len();
    if waiting.load(Ordering::Relaxed) + count > MOST_OPERATIONS {
        return traced.lost();
    }
    waiting.fetch_add(count, Ordering::Relaxed);
    traced
}

fn hear_one(reader: &mut BufReader<UnixStream>) -> anyhow::Result<Said> {
    Ok(Said::Heard(match answer(reader)? {
        Answer::Batch { kind, bytes } => {
            anyhow::ensure!(bytes <= BYTES, "the service sends more than can be");
            let mut body = vec![0; bytes as usize];
            reader
                .read_exact(&mut body)
                .context("the service has gone")?;
            let batch = unpack(kind, &body);
            Heard::Batch(batch.context("what the service sends breaks off")?)
        }
        Answer::Python(numbered) => return Ok(Said::Python(numbered)),
        Answer::All(sums) => Heard::All(sums, host::monotonic()),
        Answer::End { sums, reason } => Heard::Over(sums, Over::Ended(reason)),
        Answer::Error { .. }
        | Answer::Begun(_)
        | Answer::Snapshot(_)
        | Answer::LogsEnded { .. } => {
            anyhow::bail!("the service says what does not belong here")
        }
    }))
}
