use std::fmt;

/// The name of a blob: words of letters, digits, dots, dashes and underscores, with slashes
/// between them. No word begins with a dot, so a key never leaves its folder and never names
/// what is not a blob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

const CHARS_MAX: usize = 512;

impl Key {
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_word = |word: &str| !word.is_empty() && !word.starts_with('.') && word.bytes().all(is_letter);
        (text.len() <= CHARS_MAX && text.split('/').all(is_word)).then_some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last slash.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_leaves_its_folder() {
        for good in ["a", "artifacts/artifact_06bp", "a/b/c.d-e_f", &"x".repeat(512)] {
            assert!(Key::new(good).is_some(), "{good}");
        }
        for bad in
            ["", "/a", "a/", "a//b", "..", "a/../b", ".uploads/x", "a/.b", "a b", "ä", "a\\b", "a\0", &"x".repeat(513)]
        {
            assert!(Key::new(bad).is_none(), "{bad}");
        }
        assert_eq!(Key::new("a/b/c").unwrap().name(), "c");
    }
}
