//! A provider that says what a test has it say, at a port of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::{Span, Timestamp};
use punctual_openid::{Answer, ClientSecret, LoginSecrets, Provider, ProviderSettings};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) const CLIENT: &str = "punctual";
/// In seconds since 1970.
pub(crate) const NOW: i64 = 1_800_000_000;

pub(crate) fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

pub(crate) fn secrets() -> LoginSecrets {
    LoginSecrets {
        state: "state-of-the-login".to_owned(),
        nonce: "nonce-of-the-login".to_owned(),
        verifier: "verifier-of-the-login".to_owned(),
    }
}

/// A key of a provider, or of somebody who would like to be one.
pub(crate) struct Signer {
    id: String,
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    pub(crate) fn new(id: &str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair, random }
    }

    pub(crate) fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y })
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({ "alg": "ES256", "kid": self.id }), claims)
    }

    pub(crate) fn sign_as(&self, header: &Value, claims: &Value) -> String {
        self.signed(&header.to_string(), &claims.to_string())
    }

    pub(crate) fn sign_text(&self, claims: &str) -> String {
        self.signed(&json!({ "alg": "ES256", "kid": self.id }).to_string(), claims)
    }

    pub(crate) fn sign_headers(&self, header: &str, claims: &Value) -> String {
        self.signed(header, &claims.to_string())
    }

    pub(crate) fn sign_bringing_its_key(&self, claims: &Value) -> String {
        self.sign_as(&json!({ "alg": "ES256", "kid": self.id, "jwk": self.public() }), claims)
    }

    pub(crate) fn mac_with_public_key(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.pair.public_key().as_ref());
        let mac = ring::hmac::sign(&key, text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac))
    }

    fn signed(&self, header: &str, claims: &str) -> String {
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&self.random, text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

#[derive(Default)]
struct Script {
    discovery: (u16, String),
    keys: String,
    token: (u16, String),
    userinfo: Value,
    device: Value,
    form: String,
    authorization: String,
}

pub(crate) struct Scripted {
    pub(crate) issuer: String,
    pub(crate) signer: Signer,
    pub(crate) key_reads: Arc<AtomicUsize>,
    script: Arc<Mutex<Script>>,
    passed: Arc<AtomicI64>,
}

type Shared = (Arc<Mutex<Script>>, Arc<AtomicUsize>);

async fn answer(State((script, key_reads)): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let mut script = script.lock().unwrap();
    let (status, text) = match parts.uri.path() {
        "/.well-known/openid-configuration" => script.discovery.clone(),
        "/keys" => {
            key_reads.fetch_add(1, Ordering::Relaxed);
            (200, script.keys.clone())
        }
        "/token" => {
            script.form = String::from_utf8(body.to_vec()).unwrap();
            let header = parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            script.authorization = header.unwrap_or_default();
            script.token.clone()
        }
        "/userinfo" => (200, script.userinfo.to_string()),
        "/device" => (200, script.device.to_string()),
        _ => (404, String::new()),
    };
    let mut response = Response::builder().status(status);
    if status == 302 {
        response = response.header("location", format!("{text}/elsewhere"));
    }
    response.body(Body::from(text)).unwrap()
}

impl Scripted {
    pub(crate) async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let (script, key_reads) = (Arc::new(Mutex::new(Script::default())), Arc::new(AtomicUsize::new(0)));
        let router = Router::new().fallback(answer).with_state((Arc::clone(&script), Arc::clone(&key_reads)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let it = Self { issuer, signer: Signer::new("key-1"), key_reads, script, passed: Arc::default() };
        it.set_discovery(it.discovery().to_string());
        it.publish(&[&it.signer]);
        it.give_token(&it.signer.sign(&it.claims()));
        it.script.lock().unwrap().device = json!({
            "device_code": "device-1", "user_code": "ABCD-EFGH", "verification_uri": format!("{}/d", it.issuer),
            "expires_in": 600, "interval": 7
        });
        it
    }

    pub(crate) fn provider(&self) -> Provider {
        let settings = ProviderSettings {
            issuer: self.issuer.clone(),
            client_id: CLIENT.to_owned(),
            client_secret: Some(ClientSecret::new("s3cret")),
            redirect_url: "https://punctual.example/v1/login/openid/callback".to_owned(),
            scopes: vec!["openid".to_owned(), "profile".to_owned()],
            name_claim: "preferred_username".to_owned(),
            groups_claim: "groups".to_owned(),
            audiences: vec!["friend".to_owned()],
        };
        let passed = Arc::clone(&self.passed);
        let clock = move || {
            let seconds = NOW + passed.load(Ordering::Relaxed);
            Timestamp::EPOCH + Span::from_secs(seconds)
        };
        Provider::new(settings, None, Arc::new(clock)).unwrap()
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.passed.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn answer(&self) -> Answer {
        Answer {
            state: Some(secrets().state),
            code: Some("code-1".to_owned()),
            issuer: Some(self.issuer.clone()),
            ..Answer::default()
        }
    }

    pub(crate) fn claims(&self) -> Value {
        json!({
            "iss": self.issuer, "sub": "subject-1", "aud": CLIENT, "exp": NOW + 300, "iat": NOW,
            "nonce": secrets().nonce, "preferred_username": "ana", "groups": ["ops", "all"]
        })
    }

    pub(crate) fn discovery(&self) -> Value {
        let at = |path: &str| format!("{}/{path}", self.issuer);
        json!({
            "issuer": self.issuer, "authorization_endpoint": at("authorize"), "token_endpoint": at("token"),
            "jwks_uri": at("keys"), "userinfo_endpoint": at("userinfo"), "device_authorization_endpoint": at("device"),
            "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true
        })
    }

    pub(crate) fn set_discovery(&self, text: String) {
        self.script.lock().unwrap().discovery = (200, text);
    }

    pub(crate) fn set_discovery_status(&self, status: u16) {
        self.script.lock().unwrap().discovery.0 = status;
    }

    pub(crate) fn set_keys(&self, text: &str) {
        self.script.lock().unwrap().keys = text.to_owned();
    }

    pub(crate) fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.public()).collect();
        self.set_keys(&json!({ "keys": keys }).to_string());
    }

    pub(crate) fn give(&self, status: u16, body: String) {
        self.script.lock().unwrap().token = (status, body);
    }

    pub(crate) fn give_token(&self, token: &str) {
        self.give(200, json!({ "id_token": token, "access_token": "access-1", "token_type": "Bearer" }).to_string());
    }

    pub(crate) fn set_userinfo(&self, claims: Value) {
        self.script.lock().unwrap().userinfo = claims;
    }

    pub(crate) fn set_device(&self, name: &str, value: Value) {
        self.script.lock().unwrap().device[name] = value;
    }

    pub(crate) fn last_form(&self) -> String {
        self.script.lock().unwrap().form.clone()
    }

    pub(crate) fn last_authorization(&self) -> String {
        self.script.lock().unwrap().authorization.clone()
    }
}
