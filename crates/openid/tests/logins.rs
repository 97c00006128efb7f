//! Logins at a provider that is scripted by each test: everything that it, or a browser, can get wrong.

mod scripted;

use std::sync::atomic::Ordering;

use punctual_openid::{Answer, DevicePoll, Fault, Identity, LoginSecrets};
use serde_json::{Value, json};

use self::scripted::{CLIENT, NOW, Scripted, Signer, encoded, secrets};

async fn finish(it: &Scripted) -> Result<Identity, Fault> {
    it.provider().finish(&it.answer(), &secrets()).await
}

/// The reason for which a login with these claims is refused.
async fn refused(it: &Scripted, change: impl FnOnce(&mut Value)) -> &'static str {
    let mut claims = it.claims();
    change(&mut claims);
    it.give_token(&it.signer.sign(&claims));
    finish(it).await.expect_err("the login is refused").reason()
}

#[tokio::test]
async fn a_login_that_is_as_it_should_be_succeeds() {
    let it = Scripted::new().await;
    let identity = finish(&it).await.unwrap();
    assert_eq!((identity.subject.as_str(), identity.name.as_deref()), ("subject-1", Some("ana")));
    assert_eq!((&identity.issuer, &identity.groups), (&it.issuer, &vec!["ops".to_owned(), "all".to_owned()]));
    let form = it.last_form();
    assert!(form.contains("code_verifier=verifier-of-the-login") && form.contains("code=code-1"), "{form}");
    assert!(it.last_authorization().starts_with("Basic "), "the client proves who it is");
    assert!(!form.contains("s3cret"), "and not in the form too");
}

#[tokio::test]
async fn each_claim_must_be_right() {
    let it = Scripted::new().await;
    let (long_ago, soon) = (NOW - 3600, NOW + 3600);
    let cases: [(&str, &str, Value); 29] = [
        ("wrong_issuer", "iss", json!("https://other.example")),
        ("wrong_issuer", "iss", json!(format!("{}/", it.issuer))),
        ("wrong_issuer", "iss", Value::Null),
        ("wrong_issuer", "iss", json!([it.issuer])),
        ("wrong_audience", "aud", json!("other")),
        ("wrong_audience", "aud", json!(["other"])),
        ("wrong_audience", "aud", json!([])),
        ("wrong_audience", "aud", Value::Null),
        ("wrong_audience", "aud", json!([CLIENT, "stranger"])),
        ("wrong_audience", "aud", json!([CLIENT, 7])),
        ("wrong_audience", "aud", json!(vec![CLIENT; 100])),
        ("wrong_party", "aud", json!([CLIENT, "friend"])),
        ("wrong_party", "azp", json!("other")),
        ("wrong_party", "azp", json!(7)),
        ("wrong_nonce", "nonce", json!("of another login")),
        ("wrong_nonce", "nonce", json!("")),
        ("wrong_nonce", "nonce", Value::Null),
        ("expired", "exp", json!(NOW - 60)),
        ("malformed", "exp", Value::Null),
        ("malformed", "exp", json!("tomorrow")),
        ("malformed", "exp", json!(1e300)),
        ("malformed", "exp", json!(-5)),
        ("not_yet_valid", "nbf", json!(soon)),
        ("not_yet_valid", "iat", json!(NOW + 61)),
        ("too_old", "iat", json!(long_ago)),
        ("malformed", "iat", Value::Null),
        ("no_subject", "sub", Value::Null),
        ("no_subject", "sub", json!("x".repeat(256))),
        ("no_subject", "sub", json!("a\nb")),
    ];
    for (reason, claim, value) in cases {
        let found = refused(&it, |claims| claims[claim] = value.clone()).await;
        assert_eq!(found, reason, "{claim}: {value:.80}");
    }
}

#[tokio::test]
async fn clocks_may_differ_by_a_minute_and_other_audiences_may_be_permitted() {
    let it = Scripted::new().await;
    for (claim, value) in [
        ("exp", json!(NOW - 59)),
        ("iat", json!(NOW + 59)),
        ("nbf", json!(NOW + 59)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("azp", json!(CLIENT)),
    ] {
        let mut claims = it.claims();
        claims[claim] = value;
        it.give_token(&it.signer.sign(&claims));
        assert!(finish(&it).await.is_ok(), "{claims}");
    }
    let mut claims = it.claims();
    claims["aud"] = json!([CLIENT, "friend"]);
    claims["azp"] = json!(CLIENT);
    it.give_token(&it.signer.sign(&claims));
    assert!(finish(&it).await.is_ok(), "`friend` is permitted");
}

#[tokio::test]
async fn a_signature_counts_only_by_a_key_of_the_provider_and_by_its_algorithm() {
    let it = Scripted::new().await;
    let claims = it.claims();
    let (header, payload) = (|header: Value| encoded(&header), encoded(&claims));
    let unsigned = |alg: &str| format!("{}.{payload}.", header(json!({ "alg": alg, "kid": "key-1" })));
    let foreign = Signer::new("key-1").sign(&claims);
    // The public key as the secret of an HMAC: what a program does that goes by the token's own word.
    let by_mac = it.signer.mac_with_public_key(&json!({ "alg": "HS256", "kid": "key-1" }), &claims);
    let with_own_key = Signer::new("key-9").sign_bringing_its_key(&claims);
    let good = it.signer.sign(&claims);
    let (head, signature) = good.rsplit_once('.').unwrap();
    // A whole number of bytes is left.
    let cut = format!("{head}.{}", &signature[..signature.len() - 2]);
    let mut other = claims.clone();
    other["sub"] = json!("admin");
    let swapped = format!("{}.{}.{signature}", head.split('.').next().unwrap(), encoded(&other));
    for (reason, token) in [
        ("wrong_algorithm", unsigned("none")),
        ("wrong_algorithm", unsigned("None")),
        ("wrong_algorithm", unsigned("")),
        ("wrong_algorithm", by_mac),
        ("wrong_algorithm", it.signer.sign_as(&json!({ "alg": "RS512", "kid": "key-1" }), &claims)),
        ("wrong_algorithm", it.signer.sign_as(&json!({ "alg": "es256", "kid": "key-1" }), &claims)),
        ("wrong_algorithm", it.signer.sign_as(&json!({ "kid": "key-1" }), &claims)),
        ("unknown_key", it.signer.sign_as(&json!({ "alg": "RS256", "kid": "key-1" }), &claims)),
        ("unknown_key", it.signer.sign_as(&json!({ "alg": "EdDSA", "kid": "key-1" }), &claims)),
        ("wrong_signature", unsigned("ES256")),
        ("wrong_signature", foreign),
        ("unknown_key", with_own_key),
        ("wrong_signature", cut),
        ("wrong_signature", swapped),
        ("malformed", it.signer.sign_as(&json!({ "alg": "ES256", "kid": "key-1", "crit": ["exp"] }), &claims)),
        ("malformed", it.signer.sign_as(&json!({ "alg": "ES256", "kid": 7 }), &claims)),
        ("malformed", it.signer.sign_as(&json!({ "alg": "ES256", "typ": "at+jwt" }), &claims)),
        ("malformed", format!("{good}.x")),
        ("malformed", head.to_owned()),
        ("malformed", format!("{good}=")),
        ("malformed", format!(" {good}")),
        ("malformed", String::new()),
        ("duplicate_claims", it.signer.sign_text(r#"{"sub":"a","sub":"b"}"#)),
        ("duplicate_claims", it.signer.sign_headers(r#"{"alg":"none","alg":"ES256","kid":"key-1"}"#, &claims)),
        ("malformed", it.signer.sign_text("[]")),
        ("too_large", it.signer.sign(&json!({ "pad": "x".repeat(150_000) }))),
    ] {
        it.give_token(&token);
        let fault = finish(&it).await.expect_err(reason);
        assert_eq!(fault.reason(), reason, "{fault}: {token:.120}");
        assert!(!fault.to_string().contains("eyJ"), "no token is in a log: {fault}");
    }
    it.give_token(&good);
    assert!(finish(&it).await.is_ok());
}

#[tokio::test]
async fn a_new_key_is_found_and_unknown_ones_are_looked_for_once_in_a_while() {
    let it = Scripted::new().await;
    let provider = it.provider();
    let login = async |token: String| {
        it.give_token(&token);
        provider.finish(&it.answer(), &secrets()).await.map_err(|fault| fault.reason())
    };
    let claims = it.claims();
    assert!(login(it.signer.sign(&claims)).await.is_ok());
    let new = Signer::new("key-2");
    it.publish(&[&new]);
    assert!(login(new.sign(&claims)).await.is_ok(), "the key is read at once");
    assert_eq!(login(it.signer.sign(&claims)).await, Err("unknown_key"), "the withdrawn key counts no more");
    let reads = it.key_reads.load(Ordering::Relaxed);
    for number in 0..20 {
        assert_eq!(login(Signer::new(&format!("made-up-{number}")).sign(&claims)).await, Err("unknown_key"));
    }
    assert_eq!(it.key_reads.load(Ordering::Relaxed), reads, "a flood of them asks the provider nothing");
    it.pass(30);
    let third = Signer::new("key-3");
    it.publish(&[&new, &third]);
    assert!(login(third.sign(&claims)).await.is_ok());
}

#[tokio::test]
async fn an_answer_for_another_login_is_refused_before_the_code_is_redeemed() {
    let it = Scripted::new().await;
    let provider = it.provider();
    let of = |change: &dyn Fn(&mut Answer)| {
        let mut answer = it.answer();
        change(&mut answer);
        answer
    };
    for (reason, answer) in [
        ("wrong_state", of(&|answer| answer.state = Some("another".to_owned()))),
        ("wrong_state", of(&|answer| answer.state = Some(String::new()))),
        ("wrong_state", of(&|answer| answer.state = None)),
        ("wrong_issuer", of(&|answer| answer.issuer = Some("https://evil.example".to_owned()))),
        ("wrong_issuer", of(&|answer| answer.issuer = None)),
        ("no_code", of(&|answer| answer.code = None)),
        ("no_code", of(&|answer| answer.code = Some("x".repeat(5000)))),
        ("provider_refused", of(&|answer| answer.error = Some("access_denied".to_owned()))),
    ] {
        let fault = provider.finish(&answer, &secrets()).await.expect_err(reason);
        assert_eq!(fault.reason(), reason, "{answer:?}");
    }
    assert_eq!(it.last_form(), "", "the provider was not asked");
    let other = LoginSecrets { nonce: "of another login".to_owned(), ..secrets() };
    let fault = provider.finish(&it.answer(), &other).await.unwrap_err();
    assert_eq!(fault.reason(), "wrong_nonce", "a token that was injected into this login");
}

#[tokio::test]
async fn what_the_token_endpoint_answers_is_not_believed_blindly() {
    let it = Scripted::new().await;
    let ok = |value: Value| (200, value.to_string());
    let cases = [
        ("code_refused", (400, json!({ "error": "invalid_grant" }).to_string())),
        ("client_refused", (401, json!({ "error": "invalid_client" }).to_string())),
        ("provider_unavailable", (503, "sorry".to_owned())),
        ("provider_unavailable", (429, "slowly".to_owned())),
        ("provider_unusable", (302, it.issuer.clone())),
        ("provider_unusable", (404, "<html>".to_owned())),
        ("no_id_token", ok(json!({ "access_token": "x" }))),
        ("no_id_token", ok(json!({ "id_token": 7 }))),
        ("malformed", (200, "<html>".to_owned())),
        ("malformed", ok(json!([]))),
        ("duplicate_claims", (200, r#"{"id_token":"a","id_token":"b"}"#.to_owned())),
        ("provider_unusable", (200, " ".repeat(300_000))),
    ];
    for (reason, (status, body)) in cases {
        it.give(status, body.clone());
        let fault = finish(&it).await.expect_err(reason);
        assert_eq!(fault.reason(), reason, "{status} {body:.60}: {fault}");
    }
}

#[tokio::test]
async fn documents_of_the_provider_must_be_its_own_and_small() {
    let it = Scripted::new().await;
    let good = it.discovery();
    let cases: [(&str, Value); 10] = [
        ("issuer", json!("https://evil.example")),
        ("issuer", json!(format!("{}/", it.issuer))),
        ("issuer", Value::Null),
        ("token_endpoint", json!("http://id.example.com/token")),
        ("token_endpoint", json!("file:///etc/passwd")),
        ("token_endpoint", json!("https://u:p@id.example.com/")),
        ("token_endpoint", Value::Null),
        ("jwks_uri", json!("not a url")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
        ("code_challenge_methods_supported", json!(["plain"])),
    ];
    for (name, value) in cases {
        let mut document = good.clone();
        document[name] = value;
        it.set_discovery(document.to_string());
        assert_eq!(finish(&it).await.unwrap_err().reason(), "provider_unusable", "{document}");
    }
    it.set_discovery(format!(r#"{{"issuer":"{0}","issuer":"{0}"}}"#, it.issuer));
    assert_eq!(finish(&it).await.unwrap_err().reason(), "provider_unusable");
    it.set_discovery(" ".repeat(300_000) + &good.to_string());
    assert_eq!(finish(&it).await.unwrap_err().reason(), "provider_unusable", "an oversized document");
    it.set_discovery(good.to_string());
    for keys in ["[]", "{}", &format!(r#"{{"keys":[{}]}}"#, vec!["{}"; 100].join(",")), &" ".repeat(300_000)] {
        it.set_keys(keys);
        assert_eq!(finish(&it).await.unwrap_err().reason(), "provider_unusable", "{keys:.40}");
    }
}

#[tokio::test]
async fn a_provider_that_is_down_is_asked_again_later() {
    let it = Scripted::new().await;
    let provider = it.provider();
    it.set_discovery_status(500);
    let fault = provider.login_address(&secrets()).await.unwrap_err();
    assert!(fault.is_of_provider() && fault.reason() == "provider_unavailable", "{fault}");
    it.set_discovery_status(200);
    it.pass(2);
    let address = provider.login_address(&secrets()).await.unwrap();
    let query = address.query().unwrap();
    for part in
        ["code_challenge_method=S256", "state=state-of-the-login", "nonce=nonce-of-the-login", "scope=openid+profile"]
    {
        assert!(query.contains(part), "{query}");
    }
    assert!(!query.contains("verifier-of"), "the verifier stays here");
}

#[tokio::test]
async fn what_the_id_token_does_not_say_is_asked_of_userinfo_for_the_same_person() {
    let it = Scripted::new().await;
    let mut claims = it.claims();
    claims.as_object_mut().unwrap().remove("groups");
    it.give_token(&it.signer.sign(&claims));
    it.set_userinfo(json!({ "sub": "subject-1", "groups": ["dev"], "preferred_username": "other" }));
    let identity = finish(&it).await.unwrap();
    assert_eq!((identity.groups, identity.name.as_deref()), (vec!["dev".to_owned()], Some("ana")));
    it.set_userinfo(json!({ "sub": "admin", "groups": ["ops"] }));
    assert_eq!(finish(&it).await.unwrap_err().reason(), "wrong_subject");
    it.set_userinfo(json!({ "sub": "subject-1" }));
    assert_eq!(finish(&it).await.unwrap().groups, [""; 0]);
}

#[tokio::test]
async fn a_device_login_waits_slows_down_and_ends() {
    let it = Scripted::new().await;
    let provider = it.provider();
    let code = provider.begin_device_login().await.unwrap();
    assert_eq!((code.user_code.as_str(), code.interval.as_secs()), ("ABCD-EFGH", 7));
    for (answer, poll) in [("authorization_pending", DevicePoll::Pending), ("slow_down", DevicePoll::SlowDown)] {
        it.give(400, json!({ "error": answer }).to_string());
        assert_eq!(provider.poll_device_login(&code.device_code).await, Ok(poll));
    }
    for (answer, reason) in
        [("expired_token", "code_expired"), ("access_denied", "provider_refused"), ("invalid_grant", "code_refused")]
    {
        it.give(400, json!({ "error": answer }).to_string());
        assert_eq!(provider.poll_device_login(&code.device_code).await.unwrap_err().reason(), reason);
    }
    let mut claims = it.claims();
    claims.as_object_mut().unwrap().remove("nonce");
    it.give_token(&it.signer.sign(&claims));
    let done = provider.poll_device_login(&code.device_code).await.unwrap();
    assert!(matches!(done, DevicePoll::Done(identity) if identity.subject == "subject-1"));
    for (name, value) in [
        ("user_code", json!("\u{1b}[2J")),
        ("verification_uri", json!("http://evil.example/")),
        ("verification_uri", json!("javascript:alert(1)")),
        ("device_code", Value::Null),
        ("expires_in", json!("soon")),
    ] {
        it.set_device(name, value.clone());
        let fault = provider.begin_device_login().await.expect_err("it cannot be used");
        assert_eq!(fault.reason(), "provider_unusable", "{name} {value}");
    }
}
