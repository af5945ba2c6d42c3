//! The certificate and its key.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

use crate::config::Http;

/// Why there can be no HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} holds no {what} in PEM: {reason}")]
    Pem {
        path: PathBuf,
        what: &'static str,
        reason: String,
    },
    #[error("the certificate and the key do not go together: {0}")]
    Pair(#[from] rustls::Error),
}

/// What makes HTTPS of a connection; `None` where it is to be HTTP.
pub fn acceptor(config: &Http) -> Result<Option<TlsAcceptor>, TlsError> {
    let (Some(certificate), Some(key)) = (&config.tls_certificate, &config.tls_key) else {
        return Ok(None);
    };
    let failed = |path: &PathBuf, what| {
        let path = path.clone();
        move |error: rustls::pki_types::pem::Error| TlsError::Pem {
            path,
            what,
            reason: error.to_string(),
        }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed(certificate, "certificate"))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(failed(key, "private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}
