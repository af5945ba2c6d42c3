//! The front: a process without privileges that talks to clients, and the tracer's thread that serves and restarts it.
//! `docs/design/privilege-separation.md` gives the reasons.
//!
//! ```text
//! in the tracer             in the front
//!   supervise   restarts      process    from start to end
//!   answers     answers       confine    gives up privileges and system calls
//!                             tracer     asks
//! in both: link, the packets; settings, what the front needs of the configuration
//! ```

mod answers;
pub(crate) mod confine;
mod link;
pub mod process;
mod settings;
mod supervise;
mod tracer;

use std::{
    io,
    net::TcpListener,
    os::unix::net::UnixListener,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64},
        mpsc,
    },
    time::Duration,
};

use tokio::sync::{
    mpsc::{UnboundedSender, unbounded_channel},
    oneshot,
};
use zeroize::Zeroizing;

use super::{background::Background, shared::Shared, socket::Hub};
use answers::Answers;
pub use answers::{HEALTHY, STALLED};
pub use link::Kind;
pub use settings::Settings;
use supervise::{START_TIMEOUT, Supervisor};
pub use tracer::Tracer;

/// Between two attempts to accept a connection, after one that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The hidden subcommand that runs the front.
pub const COMMAND: &str = "front";

/// Why the front did not start.
#[derive(Debug, thiserror::Error)]
#[error("no front process, which serves HTTP and users: {0}")]
pub struct FrontError(String);

/// The front, as the metrics show it.
#[derive(Debug, Default)]
pub struct State {
    /// 0 if it does not run.
    pub pid: AtomicU32,
    pub restarts: AtomicU64,
}

/// Pauses after a connection could not be accepted: mostly there are no descriptors left, and some are soon closed.
pub async fn pause_after(error: &io::Error, what: &str) {
    log::warn!("{what} was not accepted: {error}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// The listening sockets. They stay open while the front is restarted.
pub struct Listeners {
    pub http: TcpListener,
    pub users: Option<UnixListener>,
}

/// The front, and the thread that serves it. Both end when this is dropped.
pub struct Front {
    changes: UnboundedSender<Change>,
    _background: Background,
}

/// New settings, and who waits until they are in use.
struct Change {
    settings: Encoded,
    applied: oneshot::Sender<()>,
}

type Encoded = Zeroizing<Vec<u8>>;

impl Front {
    /// Starts the front and waits until it serves. `hub` takes the clients of the users' socket.
    pub fn start(
        listeners: Listeners,
        settings: &Settings,
        shared: Arc<Shared>,
        hub: Option<Arc<Hub>>,
    ) -> Result<Self, FrontError> {
        let (changes, changed) = unbounded_channel();
        let (started, starts) = mpsc::channel();
        let settings = settings.encode();
        let supervise = move || {
            let answers = Answers::new(shared, hub);
            Supervisor::new(listeners, settings, answers, changed, started).run()
        };
        let background = Background::start("iotrace-front", "front", supervise)
            .map_err(|error| FrontError(error.to_string()))?;
        match starts.recv_timeout(START_TIMEOUT) {
            Ok(Ok(())) => Ok(Self {
                changes,
                _background: background,
            }),
            Ok(Err(why)) => Err(FrontError(why)),
            Err(_) => Err(FrontError("it does not answer".into())),
        }
    }

    /// Gives the front new settings. The result is ready when they are in use; also when the front ends, since the next one
    /// starts with them.
    pub fn reload(&self, settings: &Settings) -> oneshot::Receiver<()> {
        let (applied, applies) = oneshot::channel();
        let settings = settings.encode();
        // The thread ends only with this.
        let _ = self.changes.send(Change { settings, applied });
        applies
    }
}
