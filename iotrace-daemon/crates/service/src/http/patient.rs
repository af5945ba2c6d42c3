//! Connections that do not wait for ever: a peer that does not read what it asked for is let go, and so is the one that has
//! been silent for longest when there is no room for another.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, Sleep, sleep},
};

/// Connections at one time: each takes a descriptor and some memory.
pub const MAX_CONNECTIONS: usize = 256;

/// The connections that are open.
#[derive(Default)]
pub struct Connections {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

/// One of them.
pub struct Connection {
    /// When anything last came or went.
    active: Mutex<Instant>,
    /// Told to end.
    evicted: Notify,
}

/// A place among the connections, given back at its end.
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    pub connection: Arc<Connection>,
}

impl Connections {
    /// Takes a place. Where there is none, the connection that has been silent for longest ends.
    pub fn enter(self: &Arc<Self>) -> Place {
        let id = self.next.fetch_add(1, Relaxed);
        let connection = Arc::new(Connection {
            active: Mutex::new(Instant::now()),
            evicted: Notify::new(),
        });
        if let Ok(mut open) = self.open.lock() {
            if open.len() >= MAX_CONNECTIONS {
                let silent = open.iter().min_by_key(|(_, one)| one.last_active());
                if let Some(id) = silent.map(|(id, _)| *id)
                    && let Some(silent) = open.remove(&id)
                {
                    silent.evicted.notify_one();
                }
            }
            open.insert(id, Arc::clone(&connection));
        }
        Place {
            connections: Arc::clone(self),
            id,
            connection,
        }
    }
}

impl Connection {
    fn last_active(&self) -> Instant {
        self.active
            .lock()
            .map_or_else(|_| Instant::now(), |active| *active)
    }

    fn touch(&self) {
        if let Ok(mut active) = self.active.lock() {
            *active = Instant::now();
        }
    }

    /// Waits until it is told to end.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Ok(mut open) = self.connections.open.lock() {
            open.remove(&self.id);
        }
    }
}

/// A stream that fails where its peer takes nothing for too long.
pub struct Patient<S> {
    stream: S,
    connection: Arc<Connection>,
    patience: Duration,
    /// While a write waits: until when.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, connection: Arc<Connection>, patience: Duration) -> Self {
        Self {
            stream,
            connection,
            patience,
            waiting: None,
        }
    }

    /// What became of a write.
    fn written<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            self.connection.touch();
            return polled;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.connection.touch();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(polled, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.written(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(polled, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_silent_one_makes_room() {
        let connections = Arc::new(Connections::default());
        let mut places: Vec<Place> = (0..MAX_CONNECTIONS).map(|_| connections.enter()).collect();
        // The first one says something, so the second is the most silent.
        places[0].connection.touch();
        let newest = connections.enter();
        let open = connections.open.lock().unwrap();
        assert_eq!(open.len(), MAX_CONNECTIONS);
        assert!(open.contains_key(&places[0].id) && open.contains_key(&newest.id));
        assert!(!open.contains_key(&places[1].id));
        drop(open);
        places.clear();
        assert_eq!(connections.open.lock().unwrap().len(), 1);
    }

    /// A peer that reads nothing.
    struct Deaf;

    impl AsyncWrite for Deaf {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[test]
    fn a_peer_that_does_not_read_is_let_go() {
        let place = Arc::new(Connections::default()).enter();
        let patience = Duration::from_millis(20);
        let mut stream = Patient::new(Deaf, Arc::clone(&place.connection), patience);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let write = std::future::poll_fn(|context| Pin::new(&mut stream).poll_write(context, b"x"));
        let error = runtime.block_on(write).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
