//! The tracer, as the front sees it: answers within a time, or none.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{self, mpsc, oneshot},
    time::timeout,
};

use super::link::{Kind, Link};

/// Questions that wait to be sent.
const MAX_UNSENT: usize = 64;

/// What is sent to the tracer.
struct Message {
    kind: Kind,
    body: Vec<u8>,
    descriptor: Option<OwnedFd>,
    /// Who waits for the answer, if there is one.
    reply: Option<oneshot::Sender<Vec<u8>>>,
}

impl Message {
    fn new(kind: Kind, body: Vec<u8>) -> Self {
        Self {
            kind,
            body,
            descriptor: None,
            reply: None,
        }
    }
}

/// The front's end of the link.
pub struct Tracer {
    timeout: Duration,
    unsent: mpsc::Sender<Message>,
    /// Who waits for an answer. The tracer answers in order.
    waiting: Mutex<VecDeque<oneshot::Sender<Vec<u8>>>>,
    /// Whose turn it is to ask for a page that takes time, so that health waits for no more than one.
    turn: sync::Mutex<()>,
    /// Clients refused since the tracer last heard of it.
    refused: AtomicU64,
}

/// The messages that [`Tracer::send_all`] sends.
pub struct Unsent(mpsc::Receiver<Message>);

impl Tracer {
    /// `timeout`: how long to wait for a page.
    pub fn new(timeout: Duration) -> (Self, Unsent) {
        let (unsent, messages) = mpsc::channel(MAX_UNSENT);
        let tracer = Self {
            timeout,
            unsent,
            waiting: Mutex::default(),
            turn: sync::Mutex::default(),
            refused: AtomicU64::new(0),
        };
        (tracer, Unsent(messages))
    }

    /// Asks for a page; `None` if the tracer does not answer in time.
    pub async fn page(&self, kind: Kind) -> Option<Vec<u8>> {
        let answer = async {
            let _turn = match kind {
                Kind::Health => None,
                _ => Some(self.turn.lock().await),
            };
            let (reply, replied) = oneshot::channel();
            let message = Message {
                reply: Some(reply),
                ..Message::new(kind, Vec::new())
            };
            self.unsent.send(message).await.ok()?;
            // A page is never empty, unless the tracer could not write it.
            replied.await.ok().filter(|page| !page.is_empty())
        };
        timeout(self.timeout, answer).await.ok()?
    }

    /// Hands a client over, with all that it has said.
    pub async fn hand_over(&self, connection: OwnedFd, heard: Vec<u8>) {
        let message = Message {
            descriptor: Some(connection),
            ..Message::new(Kind::Client, heard)
        };
        // The front ends with the link.
        let _ = self.unsent.send(message).await;
    }

    /// Counts a client that the front refused.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Says that the front lives.
    pub async fn alive(&self) {
        let refused = self.refused.swap(0, Relaxed).to_ne_bytes();
        let message = Message::new(Kind::Alive, refused.to_vec());
        let _ = self.unsent.send(message).await;
    }

    /// Says that the settings are in use.
    pub async fn applied(&self) {
        let message = Message::new(Kind::Applied, Vec::new());
        let _ = self.unsent.send(message).await;
    }

    /// Gives the answer to the question that has waited longest.
    pub fn answered(&self, page: Vec<u8>) {
        let waiting = self.waiting().pop_front();
        // Who asked may have gone.
        let _ = waiting.map(|reply| reply.send(page));
    }

    /// Sends all messages, until the link ends.
    pub async fn send_all(&self, link: &Link, mut unsent: Unsent) -> io::Result<()> {
        while let Some(message) = unsent.0.recv().await {
            if let Some(reply) = message.reply {
                self.waiting().push_back(reply);
            }
            let descriptor = message.descriptor.as_ref().map(|fd| fd.as_fd());
            link.send(message.kind, &message.body, descriptor.as_slice())
                .await?;
        }
        Ok(())
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<oneshot::Sender<Vec<u8>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_tracer_that_says_nothing_is_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (front, tracer) = Link::pair().unwrap();
            let (front, tracer) = (Link::new(front).unwrap(), Link::new(tracer).unwrap());
            let (asker, unsent) = Tracer::new(Duration::from_millis(50));
            let asker = Arc::new(asker);
            let sender = Arc::clone(&asker);
            tokio::spawn(async move { sender.send_all(&front, unsent).await });
            assert_eq!(asker.page(Kind::Status).await, None);
            // The late answer is nobody's, and the next one its asker's.
            let ask = asker.page(Kind::Health);
            let answer = async {
                for kind in [Kind::Status, Kind::Health] {
                    assert_eq!(tracer.receive().await.unwrap().kind, kind);
                    asker.answered(vec![kind as u8]);
                }
            };
            let (page, ()) = tokio::join!(ask, answer);
            assert_eq!(page, Some(vec![Kind::Health as u8]));
        });
    }
}
