//! The socket in the front. A client takes one of [`MAX_CONNECTIONS`] places, at most [`MAX_CONNECTIONS_EACH`] of one user, and must
//! send a request within [`REQUEST_TIMEOUT`]. Then it is handed over to the tracer; otherwise it is refused.

use std::{
    io,
    os::{fd::OwnedFd, unix::net},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    time::timeout,
};

use super::{
    MAX_CONNECTIONS, MAX_CONNECTIONS_EACH, peer,
    places::{Place, Places},
    protocol::{self, Code, MAX_LINE_BYTES, Refusal, say},
    too_many_connections,
};
use crate::{
    front::{Settings, Tracer, pause_after},
    subordinate::Subordinates,
};

/// How long a client may take to ask.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What the connections of clients share.
pub struct Door {
    tracer: Arc<Tracer>,
    connections: Arc<Places>,
    subordinates: Mutex<Subordinates>,
}

impl Door {
    pub fn new(tracer: Arc<Tracer>, settings: &Settings) -> Self {
        Self {
            tracer,
            connections: Arc::default(),
            subordinates: settings.subordinates.clone().into(),
        }
    }

    /// Uses new settings.
    pub fn apply(&self, settings: &Settings) {
        let current = self.subordinates.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = settings.subordinates.clone();
    }

    /// A place for a client, or why there is none.
    fn admit(&self, stream: &UnixStream) -> Result<Place, Refusal> {
        let uid = peer::user(stream)?;
        let subordinates = self.subordinates.lock();
        let user = subordinates
            .unwrap_or_else(PoisonError::into_inner)
            .owner(uid);
        let place = self
            .connections
            .take(user, MAX_CONNECTIONS_EACH, MAX_CONNECTIONS);
        place.ok_or_else(too_many_connections)
    }

    fn refuse(&self, stream: &UnixStream, refusal: Refusal) {
        self.tracer.refused();
        say(stream, &refusal.into());
    }
}

/// Admits clients for as long as the front runs.
pub async fn serve(listener: net::UnixListener, door: Arc<Door>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return log::error!("no recordings for users: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match door.admit(&stream) {
                Ok(place) => {
                    tokio::spawn(converse(stream, place, Arc::clone(&door)));
                }
                Err(refusal) => door.refuse(&stream, refusal),
            },
            Err(error) => pause_after(&error, "a connection to the socket").await,
        }
    }
}

async fn converse(stream: UnixStream, place: Place, door: Arc<Door>) {
    let heard = match timeout(REQUEST_TIMEOUT, hear(&stream)).await {
        Ok(heard) => heard,
        Err(_) => Err(Refusal::new(
            Code::BadRequest,
            "no request came: the first line says what is asked",
        )),
    };
    match heard {
        Ok(heard) => match stream.into_std() {
            Ok(stream) => door.tracer.hand_over(OwnedFd::from(stream), heard).await,
            Err(error) => log::debug!("a client of the socket: {error}"),
        },
        Err(refusal) => door.refuse(&stream, refusal),
    }
    drop(place);
}

/// The request, with what came after it already.
async fn hear(stream: &UnixStream) -> Result<Vec<u8>, Refusal> {
    let mut heard = Vec::new();
    loop {
        if let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            protocol::request(&heard[..=end])?;
            return Ok(heard);
        }
        if heard.len() >= MAX_LINE_BYTES {
            let message = format!("a request is a line of at most {MAX_LINE_BYTES} bytes");
            return Err(Refusal::new(Code::BadRequest, message));
        }
        let mut bytes = [0; MAX_LINE_BYTES];
        let read = match stream.readable().await {
            Ok(()) => stream.try_read(&mut bytes[..MAX_LINE_BYTES - heard.len()]),
            Err(error) => Err(error),
        };
        match read {
            Ok(count) if count > 0 => heard.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return Err(Refusal::new(Code::BadRequest, "the request breaks off")),
        }
    }
}
