//! The socket pair between the tracer and the front. The kernel preserves the limits of packets, so the tracer buffers nothing
//! that the front sends.

use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Bytes of one packet, without its kind: well below the default size of a socket's buffer.
const MAX_BODY: usize = 32 << 10;
/// Descriptors of one packet: the two listening sockets.
const MAX_DESCRIPTORS: usize = 2;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// To the front: a part of a body; more follows.
    Part,
    /// To the front: the settings, with the listening sockets at the start.
    Settings,
    /// To the front: the answer to the oldest question that has none.
    Page,
    /// To the tracer: the settings are in use.
    Applied,
    /// To the tracer: the front lives; clients that it refused since it last said so, 8 bytes.
    Alive,
    /// To the tracer: the request of a client, and its connection.
    Client,
    /// To the tracer: questions for a page.
    OpenMetrics,
    TextMetrics,
    Status,
    Health,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Part,
        Self::Settings,
        Self::Page,
        Self::Applied,
        Self::Alive,
        Self::Client,
        Self::OpenMetrics,
        Self::TextMetrics,
        Self::Status,
        Self::Health,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A packet, or a body in several.
#[derive(Debug)]
pub struct Packet {
    pub kind: Kind,
    pub body: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

/// One end of the pair.
#[derive(Debug)]
pub struct Link(AsyncFd<OwnedFd>);

impl Link {
    /// Two connected ends.
    pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            flags,
            None,
        )?)
    }

    /// Takes one end into the current runtime.
    pub fn new(end: OwnedFd) -> io::Result<Self> {
        // SAFETY: the descriptor is owned by what is made here, and nothing else closes it.
        Ok(Self(unsafe { AsyncFd::register(end) }?))
    }

    /// Sends a body of any length, with descriptors in its last packet.
    pub async fn send(
        &self,
        kind: Kind,
        body: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let last = body.len().saturating_sub(1) / MAX_BODY * MAX_BODY;
        for part in body[..last].chunks(MAX_BODY) {
            self.send_packet(Kind::Part, part, &[]).await?;
        }
        self.send_packet(kind, &body[last..], descriptors).await
    }

    async fn send_packet(
        &self,
        kind: Kind,
        body: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let head = [kind as u8];
        let packet = [IoSlice::new(&head), IoSlice::new(body)];
        let send = |end: &OwnedFd| {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            Ok(sendmsg(end, &packet, &mut control, flags).map(drop)?)
        };
        self.0.async_io(Interest::WRITABLE, send).await
    }

    /// Receives one packet. Nothing is lost if the caller stops waiting.
    pub async fn receive(&self) -> io::Result<Packet> {
        self.0.async_io(Interest::READABLE, receive_packet).await
    }

    /// Receives a body that may come in several packets.
    pub async fn receive_all(&self) -> io::Result<Packet> {
        let mut body = Vec::new();
        loop {
            let mut packet = self.receive().await?;
            if packet.kind == Kind::Part {
                body.append(&mut packet.body);
            } else if body.is_empty() {
                return Ok(packet);
            } else {
                body.append(&mut packet.body);
                return Ok(Packet { body, ..packet });
            }
        }
    }
}

/// Whether an error means that the other side has ended.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

fn receive_packet(end: &OwnedFd) -> io::Result<Packet> {
    let (mut head, mut body) = ([0], vec![0; MAX_BODY]);
    let mut packet = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(end, &mut packet, &mut control, flags)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    let Some(length) = received.bytes.checked_sub(1) else {
        return Err(ErrorKind::UnexpectedEof.into());
    };
    let is_cut = received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    match Kind::of(head[0]) {
        Some(kind) if !is_cut => {
            body.truncate(length);
            Ok(Packet {
                kind,
                body,
                descriptors,
            })
        }
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use super::*;

    fn with_pair<F: Future<Output = ()>>(test: impl FnOnce(Link, Link, OwnedFd) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (one, other) = Link::pair().unwrap();
            let raw = other.try_clone().unwrap();
            test(Link::new(one).unwrap(), Link::new(other).unwrap(), raw).await;
        });
    }

    #[test]
    fn long_bodies_arrive_whole_with_their_descriptors() {
        with_pair(async |one, other, _raw| {
            let file = File::open("/proc/self/stat").unwrap();
            for length in [0, 1, MAX_BODY, MAX_BODY + 1, 40 * MAX_BODY, 3_000_001] {
                let body: Vec<u8> = (0..length).map(|index| index as u8).collect();
                let descriptors = [file.as_fd(), file.as_fd()];
                let send = one.send(Kind::Page, &body, &descriptors);
                let (sent, received) = tokio::join!(send, other.receive_all());
                sent.unwrap();
                let received = received.unwrap();
                assert_eq!(
                    (received.kind, received.descriptors.len()),
                    (Kind::Page, 2),
                    "{length}"
                );
                assert_eq!(received.body, body, "{length}");
            }
        });
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        with_pair(async |one, _other, raw| {
            let many: Vec<_> = (0..8).map(|_| raw.try_clone().unwrap()).collect();
            let many: Vec<_> = many.iter().map(AsFd::as_fd).collect();
            let large = vec![Kind::Status as u8; MAX_BODY + 2];
            let cases: [(&[u8], &[BorrowedFd<'_>]); 4] = [
                (&[99], &[]),
                (&large, &[]),
                (&[Kind::Client as u8], &many),
                (&[], &[]),
            ];
            for (bytes, descriptors) in cases {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(descriptors));
                }
                let flags = SendFlags::empty();
                sendmsg(&raw, &[IoSlice::new(bytes)], &mut control, flags).unwrap();
                one.receive().await.unwrap_err();
            }
        });
    }

    #[test]
    fn the_end_of_the_other_side_is_an_error() {
        with_pair(async |one, other, raw| {
            drop((other, raw));
            let error = one.receive().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn every_kind_has_its_byte() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
    }
}
