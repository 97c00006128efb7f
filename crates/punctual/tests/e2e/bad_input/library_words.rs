//! Words of the libraries below us, which say nothing to those who do not write Rust. No refusal may contain them.

/// Texts that serde, url, reqwest, hyper, clap's number parsers, the standard library, toml and regex would say.
const WORDS: [&str; 44] = [
    "at line 1 column",
    "EOF while parsing",
    "trailing characters",
    "expected value",
    "expected ident",
    "key must be a string",
    "control character (\\u0000-\\u001F)",
    "invalid type:",
    "invalid value:",
    "invalid length",
    "missing field",
    "unknown field",
    "unknown variant",
    "duplicate field",
    "expected struct",
    "expected enum",
    "expected u8",
    "expected u16",
    "expected u32",
    "expected u64",
    "expected i8",
    "expected f64",
    "expected a map",
    "expected a sequence",
    "did not match any variant",
    "untagged enum",
    "Failed to deserialize",
    "relative URL without a base",
    "empty host",
    "invalid port number",
    "invalid domain character",
    "invalid international domain name",
    "builder error",
    "error sending request",
    "uncategorized error",
    "received corrupt message",
    "(os error",
    "invalid digit found in string",
    "number too large to fit",
    "cannot parse integer from empty string",
    "invalid float literal",
    "provided string was not",
    "is not in 1..",
    "TOML parse error",
];

/// The first of them in what was said.
pub(super) fn library_word(said: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|word| said.contains(word))
}

#[test]
fn words_of_libraries_are_found() {
    assert_eq!(library_word("/number: invalid type: map, expected u32"), Some("invalid type:"));
    assert_eq!(library_word("/number: must be a whole number, not an object"), None);
}
