//! Named secrets in the worker's settings.

/// Reads `name=value` pairs, separated by commas or line breaks. Lines that begin with `#` are ignored. Errors never
/// contain a value.
pub(crate) fn parse(text: &str, what: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|pair| !pair.is_empty());
    let mut found = Vec::new();
    for (pair, place) in pairs.zip(1..) {
        let refused = || format!("{what} number {place} is not written as name=value");
        let (name, value) = pair.split_once('=').ok_or_else(refused)?;
        let (name, value) = (name.trim(), value.trim());
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        if name.is_empty() || !name.chars().all(is_allowed) || value.is_empty() {
            return Err(refused());
        }
        found.push((name.to_owned(), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_what_is_wrong_is_told_without_the_secret() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let text = "# keys\na=one==, b = two\n\nc=three";
        assert_eq!(parse(text, "key"), Ok(vec![pair("a", "one=="), pair("b", "two"), pair("c", "three")]));
        for bad in ["s3cret", "=s3cret", "a=1,s3cret", "a b=s3cret", "a="] {
            let refused = parse(bad, "key").unwrap_err();
            assert!(refused.starts_with("key number ") && !refused.contains("s3cret"), "{refused}");
        }
    }
}
