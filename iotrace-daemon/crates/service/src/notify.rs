//! systemd's notification protocol (sd_notify(3)): datagrams to the socket that `NOTIFY_SOCKET` names.

use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::Arc,
    time::Duration,
};

use super::background::Background;

/// Who started the service and wants to hear of it; nobody, as a rule, without systemd.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time between two signs of life.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// By the environment.
    pub fn from_environment() -> io::Result<Self> {
        let watchdog = env::var("WATCHDOG_USEC")
            .ok()
            .and_then(|text| text.parse().ok());
        let mine =
            env::var("WATCHDOG_PID").map_or(true, |pid| pid.parse() == Ok(std::process::id()));
        let Some(path) = env::var_os("NOTIFY_SOCKET") else {
            return Ok(Self {
                socket: None,
                watchdog: None,
            });
        };
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        Ok(Self {
            socket: Some((UnixDatagram::unbound()?, address)),
            // Twice as often as asked for, as sd_watchdog_enabled(3) recommends.
            watchdog: watchdog
                .filter(|_| mine)
                .map(|usec: u64| Duration::from_micros(usec / 2)),
        })
    }

    /// The service is up, and how.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The configuration is being read again; [`Notifier::ready`] says when that is done.
    pub fn reloading(&self) {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the target lives here.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// How the service is.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// Sends signs of life from a separate thread while `is_alive` says so; `None` if nobody wants them.
    pub fn watch(
        self: &Arc<Self>,
        is_alive: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Option<Background>> {
        let Some(interval) = self.watchdog else {
            return Ok(None);
        };
        let notifier = Arc::clone(self);
        let watch = async move || {
            loop {
                tokio::time::sleep(interval).await;
                if is_alive() {
                    notifier.send("WATCHDOG=1");
                }
            }
        };
        Background::start("iotrace-watch", "watchdog", watch).map(Some)
    }

    /// The service ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(text.as_bytes(), address)
        {
            log::warn!("systemd does not hear: {error}");
        }
    }
}
