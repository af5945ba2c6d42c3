//! The HTTP endpoint: `/metrics`, `/status`, `/healthz` and a page that links them, in a thread of its own.
//!
//! What is bounded are requests: beyond [`MAX_REQUESTS`] the answer is 503, and `/healthz` is answered always. A client that is
//! silent, or does not read its answer, is let go after [`PATIENCE`], and sooner where there is no room for another; what it
//! asks never waits for the kernel or the disk.

mod auth;
mod pages;
mod patient;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{background::Background, config::Http, metrics::Exporter, shared::Shared};
use auth::Auth;
use patient::{Connections, Patient};
pub use tls::TlsError;

/// Requests that are answered at one time, as node_exporter's.
const MAX_REQUESTS: usize = 40;
/// How long a client may take to ask, to shake hands, to read, or to stay without asking.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last at all.
const LONGEST: Duration = Duration::from_secs(3600);

/// Why the endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error(
        "cannot listen on {address}: {source}\nset `listen` in [http] to a free address and port"
    )]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The running endpoint. Ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    site: Arc<Site>,
    _background: Background,
}

/// What connections need.
struct Site {
    shared: Arc<Shared>,
    exporter: Exporter,
    auth: Auth,
    tls: std::sync::Mutex<Option<TlsAcceptor>>,
    connections: Arc<Connections>,
    requests: Arc<Semaphore>,
}

impl Server {
    /// Opens the endpoint.
    /// Reads what the configuration names: the certificate and its key.
    pub fn check(config: &Http) -> Result<(), HttpError> {
        tls::acceptor(config)?;
        Ok(())
    }

    pub fn start(config: &Http, shared: Arc<Shared>) -> Result<Self, HttpError> {
        let failed = |source| HttpError::Listen {
            address: config.listen,
            source,
        };
        let listener = std::net::TcpListener::bind(config.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let site = Arc::new(Site {
            exporter: Exporter::new(Arc::clone(&shared)),
            shared,
            auth: Auth::new(&config.users),
            tls: tls::acceptor(config)?.into(),
            connections: Arc::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        });
        let served = Arc::clone(&site);
        let background = Background::start("iotrace-http", "HTTP", move || serve(listener, served))
            .map_err(failed)?;
        Ok(Self {
            address,
            site,
            _background: background,
        })
    }

    /// Where it listens: the port is the kernel's choice where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes new users and a new certificate. What cannot be read leaves the old ones.
    pub fn reload(&self, config: &Http) -> Result<(), HttpError> {
        let tls = tls::acceptor(config)?;
        if let Ok(mut current) = self.site.tls.lock()
            && current.is_some() == tls.is_some()
        {
            *current = tls;
        }
        self.site.auth.set(&config.users);
        Ok(())
    }
}

async fn serve(listener: std::net::TcpListener, site: Arc<Site>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return log::error!("no HTTP: {error}"),
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, as a rule: some come back.
                log::warn!("an HTTP connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let site = Arc::clone(&site);
        let place = site.connections.enter();
        tokio::spawn(async move {
            let stream = Patient::new(stream, Arc::clone(&place.connection), PATIENCE);
            let tls = site.tls.lock().ok().and_then(|tls| tls.clone());
            let talk = async {
                match tls {
                    Some(tls) => match timeout(PATIENCE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => converse(stream, site).await,
                        Ok(Err(error)) => log::debug!("TLS: {error}"),
                        Err(_) => {}
                    },
                    None => converse(stream, site).await,
                }
            };
            tokio::select! {
                _ = timeout(LONGEST, talk) => {}
                () = place.connection.evicted() => {}
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, site: Arc<Site>) {
    let answer = service_fn(|request| pages::answer(request, &site));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        log::debug!("HTTP: {error}");
    }
}
