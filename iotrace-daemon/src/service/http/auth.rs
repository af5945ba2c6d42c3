//! Basic authentication (RFC 7617) against bcrypt hashes, as Prometheus exporters do it.
//!
//! A hash takes tens of milliseconds to check: one is checked at a time, off the thread that answers, and a pair of name
//! and password that was right is remembered until the users change.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use tokio::sync::Mutex;

use crate::service::config::Password;

/// Pairs that are remembered.
const REMEMBERED: usize = 100;
/// Checked for users that are not there, so that they take as long: the hash of a password that nobody knows.
const NOBODY: &str = "$2b$10$CwTycUXWue0Thq9StjUM0uJ4/YCWbbVRDCZ9jnYxOuUyUqQJ1nUqC";

/// Names and hashes.
type Users = BTreeMap<String, Password>;

/// Who may ask.
pub struct Auth {
    users: std::sync::RwLock<Arc<Users>>,
    /// Pairs that were right, and of which users; also lets one check run at a time.
    right: Mutex<(Arc<Users>, HashSet<Vec<u8>>)>,
}

impl Auth {
    pub fn new(users: &Users) -> Self {
        let users = Arc::new(users.clone());
        Self {
            users: Arc::clone(&users).into(),
            right: (users, HashSet::new()).into(),
        }
    }

    /// Takes other users.
    pub fn set(&self, users: &Users) {
        if let Ok(mut current) = self.users.write() {
            *current = Arc::new(users.clone());
        }
    }

    /// Whether a request with this `Authorization` header may be answered.
    pub async fn allows(&self, header: Option<&[u8]>) -> bool {
        let Ok(users) = self.users.read().map(|users| Arc::clone(&users)) else {
            return false;
        };
        if users.is_empty() {
            return true;
        }
        let Some(pair) = header.and_then(pair) else {
            return false;
        };
        let mut right = self.right.lock().await;
        if !Arc::ptr_eq(&right.0, &users) {
            *right = (Arc::clone(&users), HashSet::new());
        }
        if right.1.contains(&pair) {
            return true;
        }
        let asked = pair.clone();
        let checked = tokio::task::spawn_blocking(move || is_right(&asked, &users));
        let allowed = checked.await.unwrap_or(false);
        if allowed && right.1.len() < REMEMBERED {
            right.1.insert(pair);
        }
        allowed
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
        let auth = Auth::new(&BTreeMap::from([("ada".into(), hash)]));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let ask = |header: Option<&[u8]>| runtime.block_on(auth.allows(header));
        assert!(ask(Some(b"Basic YWRhOmE6Yg=="))); // ada:a:b
        assert!(ask(Some(b"Basic YWRhOmE6Yg==")), "remembered");
        assert!(!ask(Some(b"Basic YWRhOng="))); // ada:x
        assert!(!ask(Some(b"Basic Ym9iOmE6Yg=="))); // bob:a:b
        assert!(!ask(None));
        auth.set(&BTreeMap::from([(
            "bob".into(),
            bcrypt::hash("a:b", 4).unwrap().parse().unwrap(),
        )]));
        assert!(!ask(Some(b"Basic YWRhOmE6Yg==")), "no user any more");
        auth.set(&BTreeMap::new());
        assert!(ask(None), "nobody has to say who they are");
    }

    #[test]
    fn nobody_is_a_hash() {
        let _: Password = NOBODY.parse().unwrap();
    }
}
