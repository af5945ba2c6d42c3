//! The HTTP endpoint: `/metrics`, `/status`, `/healthz` and a page that links them. All but [`listen`] runs in the front, which
//! asks the tracer for the pages.
//!
//! What is bounded are requests: beyond [`MAX_REQUESTS`] the answer is 503, and `/healthz` is answered always. A client that is
//! silent, or does not read its answer, is let go after [`CLIENT_TIMEOUT`], and sooner where there is no room for another; what it
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

use super::front::{Settings, Tracer, pause_after};
use auth::Auth;
use patient::{Connections, Patient};
pub use tls::{Pem, TlsError};

/// Requests that are answered at one time, as node_exporter's.
const MAX_REQUESTS: usize = 40;
/// How long a client may take to ask, to shake hands, to read, or to stay without asking.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may last at all.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(3600);

/// Why the endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}\nset `listen` in [http] to a free address and port")]
pub struct HttpError {
    address: SocketAddr,
    source: io::Error,
}

/// Why it cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("no thread for passwords: {0}")]
    Thread(#[from] io::Error),
}

/// Opens the endpoint: the port is the kernel's choice if it is 0.
pub fn listen(address: SocketAddr) -> Result<std::net::TcpListener, HttpError> {
    let open = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    open().map_err(|source| HttpError { address, source })
}

/// What connections need.
pub struct Site {
    tracer: Arc<Tracer>,
    auth: Auth,
    tls: std::sync::Mutex<Option<TlsAcceptor>>,
    connections: Arc<Connections>,
    requests: Arc<Semaphore>,
}

impl Site {
    pub fn new(tracer: Arc<Tracer>, settings: &Settings) -> Result<Self, SiteError> {
        let tls = settings.tls.as_ref().map(Pem::acceptor).transpose()?;
        Ok(Self {
            tracer,
            auth: Auth::new(settings.users())?,
            tls: tls.into(),
            connections: Arc::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        })
    }

    /// Uses new users and a new certificate; HTTP stays HTTP, and HTTPS HTTPS.
    pub fn apply(&self, settings: &Settings) -> Result<(), TlsError> {
        let tls = settings.tls.as_ref().map(Pem::acceptor).transpose()?;
        if let Ok(mut current) = self.tls.lock()
            && current.is_some() == tls.is_some()
        {
            *current = tls;
        }
        self.auth.set(settings.users());
        Ok(())
    }
}

/// Accepts connections for as long as the front runs.
pub async fn serve(listener: std::net::TcpListener, site: Arc<Site>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return log::error!("no HTTP: {error}"),
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                pause_after(&error, "an HTTP connection").await;
                continue;
            }
        };
        let site = Arc::clone(&site);
        let place = site.connections.enter();
        tokio::spawn(async move {
            let stream = Patient::new(stream, Arc::clone(&place.connection), CLIENT_TIMEOUT);
            let tls = site.tls.lock().ok().and_then(|tls| tls.clone());
            let talk = async {
                match tls {
                    Some(tls) => match timeout(CLIENT_TIMEOUT, tls.accept(stream)).await {
                        Ok(Ok(stream)) => converse(stream, site).await,
                        Ok(Err(error)) => log::debug!("TLS: {error}"),
                        Err(_) => {}
                    },
                    None => converse(stream, site).await,
                }
            };
            tokio::select! {
                _ = timeout(MAX_CONNECTION_TIME, talk) => {}
                () = place.connection.evicted() => {}
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, site: Arc<Site>) {
    let answer = service_fn(|request| pages::answer(request, &site));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_TIMEOUT)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        log::debug!("HTTP: {error}");
    }
}
