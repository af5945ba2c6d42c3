//! What the tracer does for the front. It does not trust the front: an error here ends it.

use std::{
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout};

use super::link::{Kind, Link, Packet};
use crate::{
    metrics::{Exporter, Format},
    shared::Shared,
    socket::Hub,
};

/// How long the front may take to read a page.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// What `/healthz` answers.
pub const HEALTHY: &[u8] = b"ok\n";
pub const STALLED: &[u8] = b"stalled\n";

pub struct Answers {
    pub shared: Arc<Shared>,
    exporter: Exporter,
    hub: Option<Arc<Hub>>,
    /// When the next page may be rendered.
    next_page: Instant,
}

impl Answers {
    pub fn new(shared: Arc<Shared>, hub: Option<Arc<Hub>>) -> Self {
        Self {
            exporter: Exporter::new(Arc::clone(&shared)),
            shared,
            hub,
            next_page: Instant::now(),
        }
    }

    /// Answers one packet.
    pub async fn answer(&mut self, packet: Packet, link: &Link) -> io::Result<()> {
        let page = match packet.kind {
            Kind::Alive => return self.count_refused(&packet.body),
            Kind::Client => return self.take(packet),
            Kind::Health if self.shared.is_healthy() => HEALTHY.to_vec(),
            Kind::Health => STALLED.to_vec(),
            kind => self.page(kind).await?,
        };
        let sent = timeout(READ_TIMEOUT, link.send(Kind::Page, &page, &[]));
        sent.await.map_err(|_| unread())?
    }

    /// Renders a page. The next one is not rendered before the same time has passed again: rendering locks the state, which
    /// counting needs.
    async fn page(&mut self, kind: Kind) -> io::Result<Vec<u8>> {
        sleep_until(self.next_page).await;
        let begun = Instant::now();
        let metrics = |format| self.exporter.encode(format).unwrap_or_default();
        let text = match kind {
            Kind::OpenMetrics => metrics(Format::OpenMetrics),
            Kind::TextMetrics => metrics(Format::Text),
            Kind::Status => self.shared.status_json(),
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        self.next_page = Instant::now() + begun.elapsed();
        Ok(text.into_bytes())
    }

    /// Takes a client over.
    fn take(&self, packet: Packet) -> io::Result<()> {
        let hub = self.hub.as_ref().ok_or(ErrorKind::InvalidData)?;
        let connection: Result<[OwnedFd; 1], _> = packet.descriptors.try_into();
        let [connection] = connection.map_err(|_| ErrorKind::InvalidData)?;
        let front = self.shared.front.pid.load(Relaxed);
        hub.take(UnixStream::from(connection), packet.body, front)
    }

    fn count_refused(&self, body: &[u8]) -> io::Result<()> {
        let count = body.try_into().map_err(|_| ErrorKind::InvalidData)?;
        if let Some(hub) = &self.hub {
            hub.count_refused(u64::from_ne_bytes(count));
        }
        Ok(())
    }
}

fn unread() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not read what it asked for")
}
