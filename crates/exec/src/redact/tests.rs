use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use punctual_core::attempt::{Failure, FailureClass};
use punctual_core::secret::SecretValue;

use super::*;

fn redactor(secrets: &[(&str, &str)]) -> Redactor {
    let secrets = secrets.iter().map(|(name, value)| ((*name).to_owned(), SecretValue::new(*value)));
    Redactor::new(&secrets.collect()).expect("there are secrets")
}

fn redacted(redactor: &Redactor, text: &str) -> String {
    String::from_utf8(redactor.redact(text.as_bytes()).into_owned()).unwrap()
}

const VALUE: &str = "p4ss/w0rd+\"ü\"&x y";

#[test]
fn a_value_is_replaced_by_its_name_wherever_it_stands() {
    let redactor = redactor(&[("db", VALUE), ("key", "k3y-0f-api")]);
    assert_eq!(redacted(&redactor, "no secret here"), "no secret here");
    assert!(matches!(redactor.redact(b"no secret here"), Cow::Borrowed(_)));
    assert_eq!(redacted(&redactor, &format!("a{VALUE}b")), "a[secret db]b");
    assert_eq!(redacted(&redactor, &format!("{VALUE}k3y-0f-api{VALUE}")), "[secret db][secret key][secret db]");
    assert_eq!(redacted(&redactor, "k3y-0f-apk3y-0f-api"), "k3y-0f-ap[secret key]");
}

#[test]
fn a_url_is_found_as_it_is_shown_after_it_was_parsed() {
    for address in [
        "http://hooks.example.com/services/B00/tok7Kq9ZpW3",
        "http://hooks.example.com:80/services/B00/tok7Kq9ZpW3",
        "HTTP://hooks.example.com/services/B00/tok7Kq9ZpW3",
        "http://Hooks.Example.com/services/B00/tok7Kq9ZpW3",
        "http://hooks.example.com/services/./B00/tok7Kq9ZpW3",
        "http://hooks.example.com/services/B00/\"tok7Kq9ZpW3",
        "http://hooks.example.com/services/B00/ätok7Kq9ZpW3",
        "http://hooks.example.com/services/tok7Kq9ZpW3#part",
        "http://3405803013/services/tok7Kq9ZpW3",
        "http://ana:pass@hooks.example.com/services/tok7Kq9ZpW3",
        "http://hooks.example.com/?key= tok7Kq9ZpW3",
    ] {
        let redactor = redactor(&[("hook", address)]);
        let mut url = url::Url::parse(address).unwrap();
        for _ in 0..2 {
            let shown = redacted(&redactor, &format!("POST {url} → 200"));
            assert!(!shown.contains("tok7Kq9ZpW3"), "{address}: {shown}");
            url.set_fragment(None);
        }
        let _ = (url.set_username(""), url.set_password(None));
        let shown = redacted(&redactor, &format!("POST {url} → 200"));
        assert!(!shown.contains("tok7Kq9ZpW3"), "{address}: {shown}");
    }
    let redactor = redactor(&[("token", "tök\"en 7Kq9")]);
    for address in ["http://h/a/tök\"en 7Kq9/b", "http://h/?key=tök\"en 7Kq9&b=1"] {
        let shown = redacted(&redactor, url::Url::parse(address).unwrap().as_str());
        assert!(!shown.contains("7Kq9"), "{shown}");
    }
}

#[test]
fn encodings_of_a_value_are_found_at_every_alignment() {
    let redactor = redactor(&[("db", VALUE)]);
    for before in ["", "u", "us", "user:", "a longer beginning:"] {
        for after in ["", "x", "xy", "\n"] {
            let text = format!("{before}{VALUE}{after}");
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                let shown = redacted(&redactor, &encoded);
                assert!(shown.contains("[secret db]"), "{before:?} {after:?}: {shown}");
                // What is left at the borders says at most a few bits.
                let left = shown.replace("[secret db]", "");
                let alone = STANDARD.encode(format!("{before}{after}")).len();
                assert!(left.len() <= alone + 8, "{before:?} {after:?}: {shown}");
            }
        }
    }
    for encoded in [
        "p4ss%2Fw0rd%2B%22%C3%BC%22%26x%20y",
        "p4ss%2fw0rd%2b%22%c3%bc%22%26x%20y",
        "p4ss%2Fw0rd%2B%22%C3%BC%22%26x+y",
        r#"p4ss/w0rd+\"ü\"&x y"#,
        r#"p4ss\/w0rd+\"ü\"&x y"#,
        r#"p4ss/w0rd+\"\u00fc\"&x y"#,
    ] {
        assert_eq!(redacted(&redactor, &format!("<{encoded}>")), "<[secret db]>", "{encoded}");
    }
    let every_byte: String = VALUE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(redacted(&redactor, &every_byte), "[secret db]");
    let hexadecimal: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(redacted(&redactor, &hexadecimal), "[secret db]");
    assert_eq!(redacted(&redactor, &hexadecimal.to_uppercase()), "[secret db]");
}

#[test]
fn a_value_that_is_split_over_pieces_is_found() {
    let redactor = redactor(&[("db", VALUE), ("other", "w0rd-of-another")]);
    let text = format!("begin {VALUE} {} end {VALUE}", STANDARD.encode(format!("x{VALUE}")));
    let whole = redactor.redact(text.as_bytes()).into_owned();
    assert!(!String::from_utf8_lossy(&whole).contains("w0rd"));
    for len in 1..text.len() {
        let mut stream = redactor.stream();
        let mut given: Vec<u8> = Vec::new();
        for piece in text.as_bytes().chunks(len) {
            given.extend(stream.push(piece));
        }
        given.extend(stream.finish());
        assert_eq!(String::from_utf8_lossy(&given), String::from_utf8_lossy(&whole), "pieces of {len}");
    }
}

#[test]
fn only_what_may_be_the_beginning_of_a_secret_is_held_back() {
    let redactor = redactor(&[("db", "hunter2-and-more")]);
    let mut stream = redactor.stream();
    assert_eq!(stream.push(b"a line\n"), b"a line\n");
    assert_eq!(stream.push(b"password: hunt"), b"password: ");
    assert_eq!(stream.push(b"ing season\n"), b"hunting season\n");
    assert_eq!(stream.push(b"hhhh"), b"hhh", "no more than the beginning");
    assert_eq!(stream.push(b"unter2-and-more!"), b"[secret db]!");
    assert_eq!(stream.push(b"hunter"), b"");
    assert_eq!(stream.finish(), b"hunter", "too short to be a secret that was cut");
}

#[test]
fn a_text_that_never_lets_go_is_held_back_within_bounds() {
    let redactor = redactor(&[("a", &format!("{}b", "a".repeat(100)))]);
    let mut stream = redactor.stream();
    let mut given = 0;
    for _ in 0..1000 {
        given += stream.push(&[b'a'; 10]).len();
        assert!(stream.held.len() <= stream.held_max(), "{}", stream.held.len());
    }
    assert_eq!(given, 9_900);
    assert_eq!(stream.push(b"b\n"), b"[secret a]\n");
}

#[test]
fn a_secret_that_overlaps_itself_without_end_is_one_within_bounds() {
    let redactor = redactor(&[("a", "aaaa")]);
    let mut stream = redactor.stream();
    let mut given = Vec::new();
    for _ in 0..1000 {
        given.extend(stream.push(&[b'a'; 100]));
        assert!(stream.held.len() <= 3 * stream.held_max(), "{}", stream.held.len());
    }
    given.extend(stream.push(b" end"));
    given.extend(stream.finish());
    assert_eq!(given, b"[secret a] end");
}

#[test]
fn base64_and_hexadecimal_that_programs_break_into_lines_are_found() {
    let value: String = (0..100).map(|n: u8| char::from(b'0' + n % 75)).collect();
    let redactor = redactor(&[("key", &value)]);
    for before in 0..80 {
        let encoded = STANDARD.encode(format!("{}{value} and more", "-".repeat(before)));
        let lines: Vec<&str> =
            (0..encoded.len()).step_by(76).map(|at| &encoded[at..encoded.len().min(at + 76)]).collect();
        for line_break in ["\n", "\r\n"] {
            let shown = redacted(&redactor, &lines.join(line_break));
            assert_eq!(shown.matches("[secret key]").count(), 1, "{before}: {shown}");
            assert!(shown.len() < (before + 10) * 4 / 3 + 30, "{before}: {shown}");
        }
    }
    let hexadecimal: Vec<String> = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = hexadecimal.chunks(30).map(|bytes| bytes.concat()).collect();
    assert_eq!(redacted(&redactor, &lines.join("\n")), "[secret key]");
}

#[test]
fn what_is_left_of_a_secret_that_was_cut_goes_too() {
    let redactor = redactor(&[("db", "hunter2-and-more")]);
    assert_eq!(redacted(&redactor, "it said hunter2-an"), "it said [secret db]");
    assert_eq!(redacted(&redactor, "it said hunt"), "it said hunt");
}

#[test]
fn secrets_within_and_across_others_leave_nothing_behind() {
    let redactor = redactor(&[("long", "abcdefghij"), ("part", "cdef"), ("next", "ghijklmn")]);
    for (text, shown) in [
        ("abcdefghij", "[secret long]"),
        ("xcdefx", "x[secret part]x"),
        ("abcdefghijklmn", "[secret long]"),
        ("cdefghijklmn", "[secret part][secret next]"),
    ] {
        assert_eq!(redacted(&redactor, text), shown, "{text}");
    }
}

#[test]
fn each_line_of_a_private_key_is_a_secret() {
    let key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50\nDFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n";
    let redactor = redactor(&[("key", key)]);
    assert_eq!(redacted(&redactor, key), "[secret key]");
    assert_eq!(redacted(&redactor, "> DFtMDoQikTmiCqirVv9mWG9qfSnF <"), "> [secret key] <");
    assert_eq!(redacted(&redactor, &key.replace('\n', "\r\n")).matches("MC4CAQ").count(), 0);
}

#[test]
fn outcomes_and_details_are_without_secrets() {
    let redactor = redactor(&[("db", VALUE)]);
    let output = Bytes::from(format!("{{\"a\":{}}}", serde_json::to_string(VALUE).unwrap()));
    let Outcome::Succeeded { output } = redactor.redact_outcome(Outcome::Succeeded { output: Some(output) }) else {
        panic!()
    };
    assert_eq!(output.unwrap(), r#"{"a":"[secret db]"}"#);
    let failure = Failure { class: FailureClass::Network, ..Failure::new(format!("no route to {VALUE}")) };
    let Outcome::Failed(failure) = redactor.redact_outcome(Outcome::Failed(failure)) else { panic!() };
    assert_eq!((failure.reason.as_str(), failure.class), ("no route to [secret db]", FailureClass::Network));
    let details = redactor.redact_details(Details { limit: Some(VALUE.to_owned()), ..Details::default() });
    assert_eq!(details.limit.as_deref(), Some("[secret db]"));
}

#[test]
fn a_value_of_the_largest_size_is_found() {
    let value: String =
        (0..64 << 10).map(|n: u32| char::from(b'!' + (n.wrapping_mul(2_654_435_761) >> 26) as u8)).collect();
    let redactor = redactor(&[("large", &value)]);
    assert_eq!(redacted(&redactor, &format!("a{value}b")), "a[secret large]b");
    assert!(!redacted(&redactor, &STANDARD.encode(format!("xy{value}"))).contains(&STANDARD.encode(&value[1..31])));
}
