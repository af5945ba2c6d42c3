//! What the front needs of the configuration. The tracer reads it, since the front can open no file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    config::{Http, Password},
    http::{Pem, TlsError},
    subordinate::Subordinates,
};

/// The settings, as they cross the link.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    /// Names and bcrypt hashes.
    users: BTreeMap<String, String>,
    pub tls: Option<Pem>,
    pub subordinates: Subordinates,
}

impl Settings {
    /// Reads and checks what the configuration names.
    pub fn read(config: &Http) -> Result<Self, TlsError> {
        let users = config.users.iter();
        Ok(Self {
            users: users
                .map(|(name, password)| (name.clone(), password.hash().to_owned()))
                .collect(),
            tls: Pem::read(config)?,
            subordinates: Subordinates::read(),
        })
    }

    /// Who may ask. The tracer has checked that they are hashes.
    pub fn users(&self) -> BTreeMap<String, Password> {
        let users = self.users.iter();
        users
            .filter_map(|(name, hash)| Some((name.clone(), hash.parse().ok()?)))
            .collect()
    }

    /// The body of a packet; it has the key of the certificate.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // It would fail only for maps whose keys are not text.
        Zeroizing::new(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads such a body.
    pub fn decode(body: Vec<u8>) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&Zeroizing::new(body))
    }
}
