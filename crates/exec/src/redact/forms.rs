//! The forms in which a value may appear.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use punctual_core::secret::SECRET_BYTES_MIN;
use url::Url;

/// A line of a value that is a secret by itself, such as one of a private key. Shorter ones are in ordinary texts too.
const LINE_BYTES_MIN: usize = 12;
/// A value that has more lines is looked for as a whole.
const LINES_MAX: usize = 1024;

/// Of a longer value only the forms are looked for that people make of files: each form takes memory and time.
const SHORT_BYTES_MAX: usize = 4096;

pub(super) struct Forms {
    pub(super) plain: Vec<Vec<u8>>,
    /// Those that programs break into lines.
    pub(super) in_lines: Vec<Vec<u8>>,
}

/// The value, its lines, and what encodings make of them. None is shorter than a secret can be.
pub(super) fn of(value: &str) -> Forms {
    let mut forms = Forms { plain: Vec::new(), in_lines: Vec::new() };
    // Programs print values without the line break that a file ends with.
    let trimmed = value.trim_end_matches(['\r', '\n']);
    forms.add(value);
    if trimmed != value {
        forms.add(trimmed);
    }
    forms.add_as_url(trimmed);
    let lines: Vec<&str> = trimmed.lines().map(str::trim).collect();
    if (2..=LINES_MAX).contains(&lines.len()) {
        for line in lines.into_iter().filter(|line| line.len() >= LINE_BYTES_MIN) {
            if value.len() <= SHORT_BYTES_MAX {
                forms.add(line);
            } else {
                forms.plain.push(line.as_bytes().to_vec());
            }
        }
    }
    for forms in [&mut forms.plain, &mut forms.in_lines] {
        forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
        forms.sort_unstable();
        forms.dedup();
    }
    forms
}

impl Forms {
    /// What a URL is made of it: as a whole, as a path and as a query. Addresses are shown as they were parsed, and that is
    /// rarely how they were written: hosts are lower-cased, usual ports left out, characters escaped.
    fn add_as_url(&mut self, value: &str) {
        if value.len() > SHORT_BYTES_MAX {
            return;
        }
        if let Ok(mut url) = Url::parse(value)
            && url.has_host()
        {
            self.plain.push(url.as_str().as_bytes().to_vec());
            url.set_fragment(None);
            self.plain.push(url.as_str().as_bytes().to_vec());
            // Where the user information is left out, or the host is another name of the same.
            let resource = &url[url::Position::BeforePath..];
            if resource.len() >= LINE_BYTES_MIN {
                self.plain.push(resource.as_bytes().to_vec());
            }
        }
        let mut url = Url::parse("http://host/").expect("the address is valid");
        url.set_path(value);
        self.plain.push(url.path().as_bytes()[1..].to_vec());
        url.set_query(Some(value));
        self.plain.extend(url.query().map(|query| query.as_bytes().to_vec()));
    }

    fn add(&mut self, value: &str) {
        let bytes = value.as_bytes();
        self.plain.push(bytes.to_vec());
        let json = serde_json::to_string(value).expect("a text is JSON");
        let json = &json[1..json.len() - 1];
        self.plain.push(json.as_bytes().to_vec());
        for before in 0..3 {
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                self.in_lines.push(in_base64(bytes, before, &engine));
            }
        }
        // RFC 3986, and a form, which writes a space as +.
        let percent = [("-._~", "%20"), ("-._*", "+")];
        self.plain.extend(percent.map(|(kept, space)| percent_encoded(bytes, kept, space).into_bytes()));
        if bytes.len() > SHORT_BYTES_MAX {
            return;
        }
        // As PHP, Python's `ensure_ascii` and others write it.
        self.plain.push(json.replace('/', "\\/").into_bytes());
        self.plain.push(ascii_json(value).into_bytes());
        // encodeURIComponent keeps more than RFC 3986, and what quotes paths keeps slashes.
        for (kept, space) in [("-._~", "%20"), ("-._~!*'()", "%20"), ("-._~", "+"), ("-._*", "+"), ("-._~/", "%20")] {
            let upper = percent_encoded(bytes, kept, space);
            self.plain.push(lower_escapes(&upper).into_bytes());
            self.plain.push(upper.into_bytes());
        }
        let every_byte: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        self.plain.push(lower_escapes(&every_byte).into_bytes());
        self.plain.push(every_byte.into_bytes());
        let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.in_lines.push(hexadecimal.to_uppercase().into_bytes());
        self.in_lines.push(hexadecimal.into_bytes());
    }
}

/// What is the same in base64 whatever `before` bytes stand before the value and whatever follows.
fn in_base64(value: &[u8], before: usize, engine: &impl Engine) -> Vec<u8> {
    let mut text = vec![0; before];
    text.extend_from_slice(value);
    let whole = engine.encode(&text).into_bytes();
    // Each character is six bits; the first and the last may have bits of the neighbours.
    let first = (before * 8).div_ceil(6);
    let last = text.len() * 8 / 6;
    whole[first..last].to_vec()
}

fn percent_encoded(bytes: &[u8], kept: &str, space: &str) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for byte in bytes {
        match byte {
            b' ' => text.push_str(space),
            byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(byte) => text.push(char::from(*byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// `%2F` as `%2f`, and everything else as it is.
fn lower_escapes(text: &str) -> String {
    let mut lower = String::with_capacity(text.len());
    let mut left = 0;
    for character in text.chars() {
        lower.push(if left > 0 { character.to_ascii_lowercase() } else { character });
        left = if character == '%' { 2 } else { usize::saturating_sub(left, 1) };
    }
    lower
}

fn ascii_json(value: &str) -> String {
    let json = serde_json::to_string(value).expect("a text is JSON");
    let mut text = String::with_capacity(json.len());
    for character in json[1..json.len() - 1].chars() {
        match character {
            character if character.is_ascii() => text.push(character),
            character => {
                let mut units = [0; 2];
                character.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    text
}
