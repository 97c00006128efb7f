//! TLS for tokio-postgres, by rustls with ring.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use punctual_store::{Result, StoreError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::target::Trust;

#[derive(Clone)]
pub(crate) struct MakeTls {
    config: Arc<ClientConfig>,
}

impl MakeTls {
    pub(crate) fn new(trust: &Trust) -> Result<Self> {
        let unavailable = |text: String| StoreError::Unavailable(format!("TLS cannot be set up: {text}"));
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unavailable(error.to_string()))?;
        let config = match trust {
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate { provider }))
            }
            Trust::Verified { roots } => {
                let found = match roots {
                    Some(path) => CertificateDer::pem_file_iter(path)
                        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
                        .map_err(|error| unavailable(format!("{}: {error}", path.display())))?,
                    None => rustls_native_certs::load_native_certs().certs,
                };
                let mut store = RootCertStore::empty();
                store.add_parsable_certificates(found);
                if store.is_empty() {
                    return Err(unavailable("there are no root certificates; name a file with sslrootcert".to_owned()));
                }
                builder.with_root_certificates(store)
            }
        };
        Ok(Self { config: Arc::new(config.with_no_client_auth()) })
    }
}

impl<S> MakeTlsConnect<S> for MakeTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connect> {
        // A socket in the file system has no name and no TLS, but is asked for one.
        let host = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{host}` is no name for a certificate"))
        })?;
        Ok(Connect { connector: TlsConnector::from(self.config.clone()), name })
    }
}

pub(crate) struct Connect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Encrypted) })
    }
}

pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    // SCRAM works without it; it would need the certificate's hash algorithm, read from its ASN.1.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// `sslmode=require` means encrypted, as in libpq: it does not ask who is at the other end.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
