//! How deep JSON may be nested. Inputs and outputs of jobs are stored as they are written, and common readers give up between
//! 100 and 1,000 levels: what was stored must be readable in an answer, a few levels further in.

/// Levels of arrays and objects in an input or an output.
pub const DEPTH_MAX: usize = 64;

/// How deep valid JSON is nested.
pub fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut in_text = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => {
                bytes.next();
            }
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_nesting_and_not_what_stands_in_texts() {
        for (json, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[\"[["]"#, 1)] {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
    }
}
