//! Connections are encrypted when the URL asks for it, and trust whom it says.

use punctual_local_postgres::{Postgres, Settings};
use punctual_store::{Leases, Result, StoreError};
use punctual_store_postgres::{Options, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};

/// A certificate authority, as a file would hold it, and a server with a certificate of it.
fn server(names: &[&str]) -> (String, Postgres) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "an authority for tests");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let server = Settings::test()
        .set("ssl", "on")
        .file("server.crt", &certificate.pem())
        .file("server.key", &key.serialize_pem())
        .start()
        .unwrap();
    (authority.pem(), server)
}

async fn connect(server: &Postgres, options: &str) -> Result<PostgresStore> {
    let url = format!("{}?{options}", server.url());
    PostgresStore::connect(Options::new(url)).await
}

fn encrypted(server: &Postgres) -> String {
    let text = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'punctual%'";
    server.execute(text).unwrap()
}

#[tokio::test]
async fn a_connection_is_encrypted_as_the_url_says() {
    let (authority, server) = server(&["127.0.0.1"]);
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, authority).unwrap();
    let verified = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    for (options, expected) in [("sslmode=require", "t"), (verified.as_str(), "t"), ("", "t"), ("sslmode=disable", "f")]
    {
        let store = connect(&server, options).await.unwrap();
        store.now().await.unwrap();
        assert_eq!(encrypted(&server), expected, "{options}");
        store.close().await.unwrap();
        drop(store);
        // A connection ends a moment after its client.
        while encrypted(&server) == expected {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_refused_when_it_must_be_verified() {
    let (authority, wrong_name) = server(&["elsewhere.example"]);
    let (other_authority, _other) = server(&["127.0.0.1"]);
    let folder = tempfile::tempdir().unwrap();
    for (file, content) in [("right.pem", authority), ("other.pem", other_authority)] {
        std::fs::write(folder.path().join(file), content).unwrap();
    }
    for file in ["right.pem", "other.pem", "missing.pem"] {
        let roots = folder.path().join(file);
        let answer = connect(&wrong_name, &format!("sslmode=verify-full&sslrootcert={}", roots.display())).await;
        assert!(matches!(answer.err(), Some(StoreError::Unavailable(_))), "{file}");
    }
    // Only encrypted: it does not ask who is there.
    connect(&wrong_name, "sslmode=require").await.unwrap();
}
