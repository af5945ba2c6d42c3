//! Values as people write them: durations, sizes, password hashes.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A duration, written `30s`, `10m`, `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Span(pub Duration);

/// A bcrypt hash, as `htpasswd -nBC 10 NAME` prints it behind the name.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|error| format!("`{text}` is no duration such as 30s, 10m or 2h: {error}"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl FromStr for Password {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<bcrypt::HashParts>()
            .map(|_| Self(text.to_owned()))
            .map_err(|_| "not a bcrypt hash: make one with `htpasswd -nBC 10 NAME`".into())
    }
}

impl Password {
    /// Whether `password` is the one. Takes as long as the hash's cost says.
    pub fn is(&self, password: &[u8]) -> bool {
        bcrypt::verify(password, &self.0).unwrap_or(false)
    }

    /// The hash, which is shown to nobody.
    pub fn hash(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

macro_rules! as_text {
    ($type:ident, $write:expr, $such_as:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn(&Self) -> String = $write;
                serializer.serialize_str(&write(self))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer).map_err(|error| {
                    let error = error.to_string();
                    D::Error::custom(format!("{} {}", error.trim_end(), $such_as))
                })?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}

as_text!(Span, ToString::to_string, "such as \"30s\"");
// A hash is never shown, by /status or in a log.
as_text!(
    Password,
    |_| "********".into(),
    "as `htpasswd -nBC 10 NAME` prints it behind the name"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash_alone() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let password: Password = hash.parse().unwrap();
        assert!(password.is(b"secret"));
        assert!(!password.is(b"Secret"));
        assert!(!format!("{password:?}").contains(&hash));
        "secret".parse::<Password>().unwrap_err();
    }
}
