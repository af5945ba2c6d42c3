//! The front process, from its start to its end.

use std::{
    io::{self, ErrorKind},
    net::TcpListener,
    os::{fd::AsFd as _, unix::net::UnixListener},
    sync::Arc,
    time::Duration,
};

use rustix::net::{SocketType, sockopt::socket_type};

use super::{
    confine,
    link::{self, Kind, Link},
    settings::Settings,
    tracer::Tracer,
};
use crate::{
    http::{self, Site},
    socket::door::{self, Door},
};

/// How long a client waits for the tracer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two packets that say that the front lives.
const ALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Why the front ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("run `iotrace daemon`, which starts this command")]
    ByHand,
    #[error("the front process cannot drop its privileges: {0}")]
    Privileges(io::Error),
    #[error(
        "allow seccomp(2) in the system call filter of the unit or container: the front process cannot filter its calls: {0}"
    )]
    Filter(#[from] seccompiler::Error),
    #[error("the front process cannot serve: {0}")]
    Io(#[from] io::Error),
    #[error("the front process does not understand its settings: {0}")]
    Settings(#[from] serde_json::Error),
    #[error(transparent)]
    Tls(#[from] http::TlsError),
    #[error(transparent)]
    Site(#[from] http::SiteError),
}

/// Serves until the tracer ends.
pub fn run() -> Result<(), Error> {
    if socket_type(io::stdin()) != Ok(SocketType::SEQPACKET) {
        return Err(Error::ByHand);
    }
    confine::drop_privileges().map_err(Error::Privileges)?;
    let end = io::stdin().as_fd().try_clone_to_owned()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(async { serve(&Link::new(end)?).await });
    match served {
        // The tracer has gone.
        Err(Error::Io(error)) if link::is_end(&error) => Ok(()),
        other => other,
    }
}

async fn serve(link: &Link) -> Result<(), Error> {
    let first = link.receive_all().await?;
    let settings = Settings::decode(first.body)?;
    let mut listeners = first.descriptors.into_iter();
    let listener = listeners
        .next()
        .ok_or(ErrorKind::InvalidData)
        .map_err(io::Error::from)?;
    let (tracer, unsent) = Tracer::new(ANSWER_TIMEOUT);
    let tracer = Arc::new(tracer);
    let site = Arc::new(Site::new(Arc::clone(&tracer), &settings)?);
    let door = Arc::new(Door::new(Arc::clone(&tracer), &settings));
    drop(settings);
    // All threads run.
    confine::filter_system_calls()?;
    tokio::spawn(http::serve(TcpListener::from(listener), Arc::clone(&site)));
    if let Some(listener) = listeners.next() {
        tokio::spawn(door::serve(UnixListener::from(listener), Arc::clone(&door)));
    }
    let hear = async {
        tracer.applied().await;
        loop {
            let packet = link.receive_all().await?;
            match packet.kind {
                Kind::Page => tracer.answered(packet.body),
                Kind::Settings => {
                    let settings = Settings::decode(packet.body)?;
                    site.apply(&settings)?;
                    door.apply(&settings);
                    tracer.applied().await;
                }
                _ => return Err(io::Error::from(ErrorKind::InvalidData).into()),
            }
        }
    };
    let live = async {
        loop {
            tracer.alive().await;
            tokio::time::sleep(ALIVE_INTERVAL).await;
        }
    };
    tokio::select! {
        ended = hear => ended,
        sent = tracer.send_all(link, unsent) => Ok(sent?),
        () = live => Ok(()),
    }
}
