//! Basic authentication (RFC 7617) against bcrypt hashes, as Prometheus exporters do it.
//!
//! A hash takes tens of milliseconds to check: one is checked at a time, in a separate thread, and a pair of name
//! and password that was right is remembered until the users change. A remembered pair waits for no check, and at most
//! [`MAX_WAITING`] unknown ones wait: wrong passwords do not keep the right one out.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    sync::{Arc, mpsc},
};

use tokio::sync::{Mutex, Semaphore, oneshot};

use crate::config::Password;

/// Unknown pairs that wait to be checked.
const MAX_WAITING: usize = 8;
/// Pairs that are remembered.
const MAX_REMEMBERED_PAIRS: usize = 100;
/// Checked for users that are not there, so that they take as long: the hash of a password that nobody knows.
const NOBODY: &str = "$2b$10$CwTycUXWue0Thq9StjUM0uJ4/YCWbbVRDCZ9jnYxOuUyUqQJ1nUqC";

/// Names and hashes.
type Users = BTreeMap<String, Password>;

/// Who may ask.
pub struct Auth {
    users: std::sync::RwLock<Arc<Users>>,
    /// Pairs that were right, and of which users.
    right: std::sync::RwLock<(Arc<Users>, HashSet<Vec<u8>>)>,
    /// Unknown pairs that may wait, and the one that is checked.
    waiting: Semaphore,
    checking: Mutex<()>,
    checker: mpsc::Sender<Check>,
}

/// A pair to be checked, and who waits for the result.
struct Check {
    pair: Vec<u8>,
    users: Arc<Users>,
    is_right: oneshot::Sender<bool>,
}

/// What is to become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Allowed,
    Denied,
    /// Too many unknown pairs wait to be checked.
    Busy,
}

impl Auth {
    /// Starts the thread that checks, and waits until it runs: only then can the front give up the system calls that start a
    /// thread.
    pub fn new(users: Users) -> io::Result<Self> {
        let users = Arc::new(users);
        let (checker, checks) = mpsc::channel::<Check>();
        let (started, starts) = mpsc::channel();
        let check = move || {
            drop(started);
            for check in checks {
                // Who asked may have gone.
                let _ = check.is_right.send(is_right(&check.pair, &check.users));
            }
        };
        std::thread::Builder::new()
            .name("iotrace-auth".into())
            .spawn(check)?;
        // Nothing is sent: the end of the channel says so.
        let _: Result<(), _> = starts.recv();
        Ok(Self {
            users: Arc::clone(&users).into(),
            right: (users, HashSet::new()).into(),
            waiting: Semaphore::new(MAX_WAITING),
            checking: Mutex::new(()),
            checker,
        })
    }

    /// Takes other users.
    pub fn set(&self, users: Users) {
        if let Ok(mut current) = self.users.write() {
            *current = Arc::new(users);
        }
    }

    /// Whether a request with this `Authorization` header may be answered.
    pub async fn access(&self, header: Option<&[u8]>) -> Access {
        let Ok(users) = self.users.read().map(|users| Arc::clone(&users)) else {
            return Access::Denied;
        };
        if users.is_empty() {
            return Access::Allowed;
        }
        let Some(pair) = header.and_then(pair) else {
            return Access::Denied;
        };
        if self.is_remembered(&users, &pair) {
            return Access::Allowed;
        }
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Access::Busy;
        };
        let _checking = self.checking.lock().await;
        // It may have been right a moment ago.
        if self.is_remembered(&users, &pair) {
            return Access::Allowed;
        }
        let (is_right, checked) = oneshot::channel();
        let check = Check {
            pair: pair.clone(),
            users: Arc::clone(&users),
            is_right,
        };
        let is_sent = self.checker.send(check).is_ok();
        if !(is_sent && checked.await.unwrap_or(false)) {
            return Access::Denied;
        }
        if let Ok(mut right) = self.right.write() {
            if !Arc::ptr_eq(&right.0, &users) {
                *right = (users, HashSet::new());
            }
            if right.1.len() < MAX_REMEMBERED_PAIRS {
                right.1.insert(pair);
            }
        }
        Access::Allowed
    }

    fn is_remembered(&self, users: &Arc<Users>, pair: &[u8]) -> bool {
        let right = self.right.read();
        right.is_ok_and(|right| Arc::ptr_eq(&right.0, users) && right.1.contains(pair))
    }
}

fn is_right(pair: &[u8], users: &Users) -> bool {
    let mut parts = pair.splitn(2, |byte| *byte == b':');
    let (name, password) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let known = std::str::from_utf8(name)
        .ok()
        .and_then(|name| users.get(name));
    match known {
        Some(known) => known.is(password),
        None => {
            let _ = NOBODY.parse().map(|nobody: Password| nobody.is(password));
            false
        }
    }
}

/// `name:password` of the header.
fn pair(header: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = header.split_at_checked(6)?;
    scheme.eq_ignore_ascii_case(b"basic ").then_some(())?;
    base64(rest.trim_ascii())
}

/// RFC 4648; padding may be left out.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_header() {
        assert_eq!(pair(b"Basic YWRhOnMzY3JldA==").unwrap(), b"ada:s3cret");
        assert_eq!(pair(b"basic YWRhOnMzY3JldA").unwrap(), b"ada:s3cret");
        assert_eq!(pair(b"Bearer YWRh"), None);
        assert_eq!(pair(b"Basic \xff"), None);
        assert_eq!(pair(b"Bas"), None);
    }

    #[test]
    fn only_who_knows_the_password_may_ask() {
        let hash = bcrypt::hash("a:b", 4).unwrap().parse().unwrap();
        let auth = Auth::new(BTreeMap::from([("ada".into(), hash)])).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let ask = |header: Option<&[u8]>| runtime.block_on(auth.access(header)) == Access::Allowed;
        assert!(ask(Some(b"Basic YWRhOmE6Yg=="))); // ada:a:b
        assert!(ask(Some(b"Basic YWRhOmE6Yg==")), "remembered");
        assert!(!ask(Some(b"Basic YWRhOng="))); // ada:x
        assert!(!ask(Some(b"Basic Ym9iOmE6Yg=="))); // bob:a:b
        assert!(!ask(None));
        auth.set(BTreeMap::from([(
            "bob".into(),
            bcrypt::hash("a:b", 4).unwrap().parse().unwrap(),
        )]));
        assert!(!ask(Some(b"Basic YWRhOmE6Yg==")), "no user any more");
        auth.set(BTreeMap::new());
        assert!(ask(None), "nobody has to say who they are");
    }

    #[test]
    fn wrong_passwords_keep_no_right_one_out() {
        let hash = bcrypt::hash("a:b", 10).unwrap().parse().unwrap();
        let auth = Arc::new(Auth::new(BTreeMap::from([("ada".into(), hash)])).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        const RIGHT: &[u8] = b"Basic YWRhOmE6Yg=="; // ada:a:b
        runtime.block_on(async {
            assert_eq!(auth.access(Some(RIGHT)).await, Access::Allowed);
            let guesses: Vec<_> = (0..60)
                .map(|_| {
                    let auth = Arc::clone(&auth);
                    tokio::spawn(async move { auth.access(Some(b"Basic YWRhOng=")).await })
                })
                .collect();
            tokio::task::yield_now().await;
            // Not one of them has been checked yet.
            assert!(auth.checking.try_lock().is_err());
            assert_eq!(auth.access(Some(RIGHT)).await, Access::Allowed);
            assert!(auth.checking.try_lock().is_err(), "it did not wait");
            let mut busy = 0;
            for guess in guesses {
                let access = guess.await.unwrap();
                assert_ne!(access, Access::Allowed);
                busy += usize::from(access == Access::Busy);
            }
            assert_eq!(busy, 60 - MAX_WAITING);
        });
    }

    #[test]
    fn nobody_is_a_hash() {
        let _: Password = NOBODY.parse().unwrap();
    }
}
