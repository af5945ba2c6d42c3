//! The certificate and its key.

use std::{fs, io, path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroize as _;

use crate::config::Http;

/// Why there can be no HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} holds no {what} in PEM: {reason}")]
    Pem {
        path: PathBuf,
        what: &'static str,
        reason: String,
    },
    #[error("the certificate and the key do not go together: {0}")]
    Pair(#[from] rustls::Error),
}

/// The texts of both files.
#[derive(Serialize, Deserialize)]
pub struct Pem {
    certificate: Text,
    key: Text,
}

#[derive(Serialize, Deserialize)]
struct Text {
    path: PathBuf,
    text: String,
}

impl Text {
    fn read(path: &PathBuf) -> Result<Self, TlsError> {
        let text = fs::read_to_string(path).map_err(|source| TlsError::Read {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            path: path.clone(),
            text,
        })
    }

    fn lacks(&self, what: &'static str) -> impl Fn(rustls::pki_types::pem::Error) -> TlsError {
        let path = self.path.clone();
        move |error| TlsError::Pem {
            path: path.clone(),
            what,
            reason: error.to_string(),
        }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

impl Pem {
    /// Reads and checks the files that the configuration names; `None` if it names none.
    pub fn read(config: &Http) -> Result<Option<Self>, TlsError> {
        let (Some(certificate), Some(key)) = (&config.tls_certificate, &config.tls_key) else {
            return Ok(None);
        };
        let pem = Self {
            certificate: Text::read(certificate)?,
            key: Text::read(key)?,
        };
        pem.acceptor()?;
        Ok(Some(pem))
    }

    /// What makes HTTPS of a connection.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let chain = CertificateDer::pem_slice_iter(self.certificate.text.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(self.certificate.lacks("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.text.as_bytes())
            .map_err(self.key.lacks("private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
