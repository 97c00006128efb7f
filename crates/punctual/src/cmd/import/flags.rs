//! Reads the flags of `curl` and `wget` as those programs do, as far as we know them.

/// One of their flags.
pub(super) struct Flag<M> {
    /// With its dash.
    pub(super) short: &'static str,
    /// With its dashes.
    pub(super) long: &'static str,
    pub(super) takes: Takes,
    pub(super) means: M,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
}

/// A flag that was found, with its value, or something that is no flag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a, M> {
    Flag(M, &'a str),
    Other(&'a str),
}

/// `Err` names the flag that is not known, or has no value.
pub(super) fn read<'a, M: Copy>(args: &'a [String], known: &[Flag<M>]) -> Result<Vec<Found<'a, M>>, String> {
    let mut found = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "-" || !arg.starts_with('-') {
            found.push(Found::Other(arg));
            continue;
        }
        let (name, inline) = match arg.split_once('=').filter(|_| arg.starts_with("--")) {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        if let Some(flag) = known.iter().find(|flag| name == flag.long || name == flag.short) {
            let value = match (flag.takes, inline) {
                (Takes::Nothing, None) => "",
                (Takes::Nothing, Some(_)) => return Err(format!("`{name}` takes no value")),
                (Takes::Value, Some(value)) => value,
                (Takes::Value, None) => rest.next().ok_or_else(|| format!("`{name}` has no value"))?,
            };
            found.push(Found::Flag(flag.means, value));
            continue;
        }
        if arg.starts_with("--") {
            return Err(format!("`{name}` has no counterpart here"));
        }
        // Several letters behind one dash, the last with its value: `-fsSo /dev/null`, `-qO-`.
        for (at, letter) in arg.char_indices().skip(1) {
            let is_it = |flag: &&Flag<M>| flag.short.strip_prefix('-').is_some_and(|short| short.chars().eq([letter]));
            let Some(flag) = known.iter().find(is_it) else {
                return Err(format!("`-{letter}` has no counterpart here"));
            };
            if flag.takes == Takes::Nothing {
                found.push(Found::Flag(flag.means, ""));
                continue;
            }
            let value = match &arg[at + letter.len_utf8()..] {
                "" => rest.next().ok_or_else(|| format!("`-{letter}` has no value"))?,
                value => value,
            };
            found.push(Found::Flag(flag.means, value));
            break;
        }
    }
    Ok(found)
}
