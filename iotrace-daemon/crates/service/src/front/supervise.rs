//! Starts the front, serves it, and starts it again.

use std::{
    convert::Infallible,
    io::{self, ErrorKind},
    iter,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Duration,
};

use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    COMMAND, Change, Encoded, Listeners,
    answers::Answers,
    link::{self, Kind, Link},
};

/// How long the front may take to start and to put settings to use.
pub const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may say nothing.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time before a restart: doubled each time, until a front has lived for a while.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The tracer's side of the front.
pub struct Supervisor {
    listeners: Listeners,
    settings: Encoded,
    answers: Answers,
    changes: UnboundedReceiver<Change>,
    /// Who waits for the first front to serve.
    started: Option<mpsc::Sender<Result<(), String>>>,
}

impl Supervisor {
    pub fn new(
        listeners: Listeners,
        settings: Encoded,
        answers: Answers,
        changes: UnboundedReceiver<Change>,
        started: mpsc::Sender<Result<(), String>>,
    ) -> Self {
        Self {
            listeners,
            settings,
            answers,
            changes,
            started: Some(started),
        }
    }

    /// Keeps a front running. Returns only if the first one does not come up.
    pub async fn run(mut self) {
        let mut backoff = MIN_BACKOFF;
        loop {
            let begun = Instant::now();
            let why = self.run_front().await;
            if let Some(started) = self.started.take() {
                // The start of the service waits for it.
                let _ = started.send(Err(why));
                return;
            }
            if begun.elapsed() >= STABLE_AFTER {
                backoff = MIN_BACKOFF;
            }
            log::error!("the front process is started again in {backoff:?}: {why}");
            self.answers.shared.front.restarts.fetch_add(1, Relaxed);
            sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Runs one front to its end, and says why it ended.
    async fn run_front(&mut self) -> String {
        let (mut process, link) = match Process::start() {
            Ok(started) => started,
            Err(error) => return format!("it cannot be started: {error}"),
        };
        let shared = Arc::clone(&self.answers.shared);
        shared.front.pid.store(process.0.id(), Relaxed);
        let Err(error) = self.serve(&link).await;
        shared.front.pid.store(0, Relaxed);
        let status = process.end();
        match error.kind() {
            _ if link::is_end(&error) => status,
            ErrorKind::InvalidData => "it violated the protocol".into(),
            _ => error.to_string(),
        }
    }

    /// Serves a front until it ends or has to.
    async fn serve(&mut self, link: &Link) -> Result<Infallible, io::Error> {
        let users = self.listeners.users.as_ref().map(|users| users.as_fd());
        let listeners: Vec<_> = iter::once(self.listeners.http.as_fd())
            .chain(users)
            .collect();
        send_settings(link, &self.settings, &listeners).await?;
        let mut unapplied = 1_usize;
        let mut apply_by = Instant::now() + START_TIMEOUT;
        let mut speak_by = Instant::now() + START_TIMEOUT;
        let mut waiting = Vec::new();
        loop {
            let deadline = match unapplied {
                0 => speak_by,
                _ => speak_by.min(apply_by),
            };
            tokio::select! {
                packet = timeout_at(deadline, link.receive()) => {
                    let packet = packet.map_err(|_| silent())??;
                    speak_by = Instant::now() + SILENCE_TIMEOUT;
                    if packet.kind != Kind::Applied {
                        self.answers.answer(packet, link).await?;
                        continue;
                    }
                    unapplied = unapplied.checked_sub(1).ok_or(ErrorKind::InvalidData)?;
                    if unapplied == 0 {
                        // The end of the channel tells those who wait.
                        waiting.clear();
                        if let Some(started) = self.started.take() {
                            let _ = started.send(Ok(()));
                        }
                    }
                }
                Some(change) = self.changes.recv() => {
                    self.settings = change.settings;
                    waiting.push(change.applied);
                    unapplied += 1;
                    apply_by = Instant::now() + START_TIMEOUT;
                    send_settings(link, &self.settings, &[]).await?;
                }
            }
        }
    }
}

async fn send_settings(
    link: &Link,
    settings: &Encoded,
    listeners: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let sent = timeout(
        START_TIMEOUT,
        link.send(Kind::Settings, settings, listeners),
    );
    sent.await.map_err(|_| silent())?
}

fn silent() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not answer")
}

/// A front that runs. It is killed when this is dropped.
struct Process(Child);

impl Process {
    fn start() -> io::Result<(Self, Link)> {
        let (own, fronts) = Link::pair()?;
        // The same file as this process, even if another one has its name by now.
        let child = Command::new("/proc/self/exe")
            .arg0("iotrace")
            .arg(COMMAND)
            .env_clear()
            .env("RUST_LOG", log::max_level().as_str())
            .current_dir("/")
            .stdin(fronts)
            .stdout(Stdio::null())
            .spawn()?;
        Ok((Self(child), Link::new(own)?))
    }

    /// Kills it, and says how it had ended.
    fn end(&mut self) -> String {
        if let Err(error) = self.0.kill() {
            // To wait for it could last for ever.
            log::error!("kill process {}, the front: {error}", self.0.id());
            return error.to_string();
        }
        let ended = self.0.wait();
        ended.map_or_else(
            |error| error.to_string(),
            |status| format!("it ended, {status}"),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        os::{
            fd::OwnedFd,
            unix::net::{UnixListener, UnixStream},
        },
        path::Path,
    };

    use tokio::sync::mpsc::{channel, unbounded_channel};

    use super::*;
    use crate::{
        config::Config,
        shared::{Service, Shared, State},
        socket::{Counting, Socket},
        totals::Totals,
    };
    use iotrace_phases::Classifier;
    use iotrace_tracer::kernel::Programs;

    /// Nothing is recorded here.
    const NO_PROGRAMS: Programs = Programs {
        current: || Ok(Vec::new()),
        compat_510: || Ok(Vec::new()),
        nobtf: || Ok(Vec::new()),
    };

    /// How a front is served that does this with its end of the link, given a second descriptor of that end and the listeners.
    fn served(
        front: impl AsyncFnOnce(&Link, &OwnedFd, &[OwnedFd], &Path),
    ) -> Result<(), ErrorKind> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let mut config = Config::default();
        config.recordings.socket = path.clone();
        let state = State {
            totals: Totals::new(100),
            histograms: None,
            devices: Vec::new(),
            service: Service::default(),
        };
        let (asked, _questions) = channel(1);
        let table = Classifier::builtin().table();
        let counting = Counting {
            questions: asked,
            orders: channel(1).0,
            ends: channel(1).0,
            hook: "btf".into(),
            page_cache: true,
            lacks_waits: None,
            lacks_lines: None,
        };
        let (socket, users) = Socket::open(&config, NO_PROGRAMS, table, counting)
            .unwrap()
            .unwrap();
        let listeners = Listeners {
            http: TcpListener::bind("127.0.0.1:0").unwrap(),
            users: Some(users),
        };
        let answers = Answers::new(Arc::new(Shared::new(state)), Some(socket.hub()));
        let (_changes, changed) = unbounded_channel();
        let (started, _starts) = mpsc::channel();
        let settings = Encoded::new(b"settings".to_vec());
        let mut supervisor = Supervisor::new(listeners, settings, answers, changed, started);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (own, fronts) = Link::pair().unwrap();
            let (own, again) = (Link::new(own).unwrap(), fronts.try_clone().unwrap());
            let fronts = Link::new(fronts).unwrap();
            let front = async {
                let first = fronts.receive_all().await.unwrap();
                assert_eq!((first.kind, first.descriptors.len()), (Kind::Settings, 2));
                front(&fronts, &again, &first.descriptors, &path).await;
                // What it has sent is looked at, and then it is still served.
                fronts.send(Kind::Health, &[], &[]).await.unwrap();
                fronts.receive_all().await
            };
            tokio::select! {
                Err(error) = supervisor.serve(&own) => Err(error.kind()),
                page = front => {
                    assert_eq!(page.unwrap().body, b"ok\n");
                    Ok(())
                }
            }
        })
    }

    #[test]
    fn a_front_that_behaves_is_served() {
        let behaves = served(async |front, _, _, _| {
            front.send(Kind::Applied, &[], &[]).await.unwrap();
            front.send(Kind::Alive, &[0; 8], &[]).await.unwrap();
            for (kind, word) in [
                (Kind::Status, "\"hooks\""),
                (Kind::TextMetrics, "# HELP"),
                (Kind::OpenMetrics, "# EOF"),
            ] {
                front.send(kind, &[], &[]).await.unwrap();
                let page = front.receive_all().await.unwrap();
                assert_eq!(page.kind, Kind::Page);
                let text = String::from_utf8(page.body).unwrap();
                assert!(text.contains(word), "{text}");
            }
        });
        assert_eq!(behaves, Ok(()));
    }

    #[test]
    fn packets_that_make_no_sense_end_the_front() {
        let cases: &[&[(Kind, &[u8])]] = &[
            &[(Kind::Part, b"x")],
            &[(Kind::Settings, b"{}")],
            &[(Kind::Page, b"ok")],
            &[(Kind::Alive, b"")],
            &[(Kind::Applied, b""), (Kind::Applied, b"")],
            &[(Kind::Client, b"{}\n")],
        ];
        for case in cases {
            let ends = served(async |front, _, _, _| {
                for (kind, body) in *case {
                    front.send(*kind, body, &[]).await.unwrap();
                }
            });
            assert_eq!(ends, Err(ErrorKind::InvalidData), "{case:?}");
        }
    }

    /// Whoever the front wants to be taken for, it is not.
    #[test]
    fn a_front_cannot_forge_who_asks() {
        const REQUEST: &[u8] = b"{\"iotrace\":1,\"snapshot\":{}}\n";
        type Forge = fn(&OwnedFd, &[OwnedFd], &Path) -> Vec<OwnedFd>;
        let cases: [(&str, Forge); 6] = [
            (
                "its end of the link, which the tracer made",
                |link, _, _| vec![link.try_clone().unwrap()],
            ),
            (
                "the listening socket, which the tracer made",
                |_, listeners, _| vec![listeners[1].try_clone().unwrap()],
            ),
            ("the socket for HTTP", |_, listeners, _| {
                vec![listeners[0].try_clone().unwrap()]
            }),
            ("a pair that the front made", |_, _, _| {
                vec![UnixStream::pair().unwrap().0.into()]
            }),
            (
                "a connection that the tracer has made, as far as the kernel knows",
                |_, listeners, path| {
                    let _client = UnixStream::connect(path).unwrap();
                    let listener = UnixListener::from(listeners[1].try_clone().unwrap());
                    vec![listener.accept().unwrap().0.into()]
                },
            ),
            ("nothing", |_, _, _| Vec::new()),
        ];
        for (what, forge) in cases {
            let ends = served(async |front, link, listeners, path| {
                let forged = forge(link, listeners, path);
                let forged: Vec<BorrowedFd<'_>> = forged.iter().map(|fd| fd.as_fd()).collect();
                front.send(Kind::Client, REQUEST, &forged).await.unwrap();
            });
            assert_eq!(ends, Err(ErrorKind::InvalidData), "{what}");
        }
    }
}
