//! Makes HTTP calls of `curl` and `wget`, where all that they are told has a counterpart.

use punctual_core::Span;
use punctual_core::task::{HttpCall, Method};

use super::flags::{Flag, Found, Takes, read};

/// What `curl` or `wget` would do.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) call: HttpCall,
    /// Tries after the first.
    pub(super) retries: u16,
}

/// wget waits so long for an answer, and curl for ever.
const ANSWER_TIMEOUT: Span = Span::from_secs(900);

#[derive(Debug, Clone, Copy)]
enum Means {
    /// Says how much to print, or something that makes no difference here.
    Nothing,
    Method,
    Header,
    /// `@file` reads a file.
    Data,
    DataAsIs,
    UserAgent,
    /// For the whole request, in seconds.
    Timeout,
    Follow,
    RedirectsMax,
    Head,
    /// The answer goes to this file.
    SaveTo,
    /// The answer is thrown away.
    Discard,
    /// After the first try.
    Retries,
    /// With the first try.
    Tries,
}

const fn flag(short: &'static str, long: &'static str, takes: Takes, means: Means) -> Flag<Means> {
    Flag { short, long, takes, means }
}

const CURL: &[Flag<Means>] = &[
    flag("-s", "--silent", Takes::Nothing, Means::Nothing),
    flag("-S", "--show-error", Takes::Nothing, Means::Nothing),
    flag("-f", "--fail", Takes::Nothing, Means::Nothing),
    flag("", "--fail-with-body", Takes::Nothing, Means::Nothing),
    flag("", "--compressed", Takes::Nothing, Means::Nothing),
    flag("", "--no-progress-meter", Takes::Nothing, Means::Nothing),
    flag("", "--connect-timeout", Takes::Value, Means::Nothing),
    flag("-X", "--request", Takes::Value, Means::Method),
    flag("-H", "--header", Takes::Value, Means::Header),
    flag("-d", "--data", Takes::Value, Means::Data),
    flag("", "--data-raw", Takes::Value, Means::DataAsIs),
    flag("-A", "--user-agent", Takes::Value, Means::UserAgent),
    flag("-m", "--max-time", Takes::Value, Means::Timeout),
    flag("-L", "--location", Takes::Nothing, Means::Follow),
    flag("", "--max-redirs", Takes::Value, Means::RedirectsMax),
    flag("-I", "--head", Takes::Nothing, Means::Head),
    flag("-o", "--output", Takes::Value, Means::SaveTo),
    flag("", "--retry", Takes::Value, Means::Retries),
];

const WGET: &[Flag<Means>] = &[
    flag("-q", "--quiet", Takes::Nothing, Means::Nothing),
    flag("-nv", "--no-verbose", Takes::Nothing, Means::Nothing),
    flag("", "--no-cache", Takes::Nothing, Means::Nothing),
    flag("", "--header", Takes::Value, Means::Header),
    flag("", "--post-data", Takes::Value, Means::DataAsIs),
    flag("-U", "--user-agent", Takes::Value, Means::UserAgent),
    flag("-T", "--timeout", Takes::Value, Means::Timeout),
    flag("", "--max-redirect", Takes::Value, Means::RedirectsMax),
    flag("", "--spider", Takes::Nothing, Means::Head),
    flag("-O", "--output-document", Takes::Value, Means::SaveTo),
    flag("", "--delete-after", Takes::Nothing, Means::Discard),
    flag("-t", "--tries", Takes::Value, Means::Tries),
];

/// Whether a program is one of those that [`translate`] knows.
pub(super) fn is_known(program: &str) -> bool {
    flags_of(program).is_some()
}

fn flags_of(program: &str) -> Option<&'static [Flag<Means>]> {
    match program.rsplit('/').next() {
        Some("curl") => Some(CURL),
        Some("wget") => Some(WGET),
        Some(_) | None => None,
    }
}

/// `Err` says what has no counterpart.
pub(super) fn translate(words: &[String], stdin: Option<&str>) -> Result<Request, String> {
    let (program, args) = words.split_first().ok_or("there is no command")?;
    let known = flags_of(program).ok_or_else(|| format!("{program} is not known"))?;
    let is_wget = program.ends_with("wget");
    let mut draft = Draft { follows: is_wget, saves: is_wget, ..Draft::default() };
    for found in read(args, known)? {
        match found {
            Found::Other(address) => draft.set_address(address)?,
            Found::Flag(means, value) => draft.set(means, value, stdin)?,
        }
    }
    draft.finish()
}

/// What was read so far.
#[derive(Default)]
struct Draft {
    address: Option<String>,
    method: Option<Method>,
    is_head: bool,
    headers: Vec<(String, String)>,
    data: Vec<String>,
    timeout: Option<Span>,
    follows: bool,
    redirects_max: Option<u8>,
    /// The answer would become a file.
    saves: bool,
    retries: u16,
}

impl Draft {
    fn set_address(&mut self, text: &str) -> Result<(), String> {
        if self.address.is_some() {
            return Err("it calls several addresses; write a line for each".to_owned());
        }
        let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
        // curl makes several addresses of what is in brackets.
        let is_plain = |rest: &str| !rest.starts_with(['/', '?', '#']) && !rest.contains(['[', ']', '{', '}', ' ']);
        if !rest.is_some_and(|rest| !rest.is_empty() && is_plain(rest)) {
            return Err(format!("`{text}` is no address that can be called; use http:// or https://"));
        }
        self.address = Some(address);
        Ok(())
    }

    fn set(&mut self, means: Means, value: &str, stdin: Option<&str>) -> Result<(), String> {
        match means {
            Means::Nothing => {}
            Means::Method => {
                let word = serde_json::Value::String(value.to_owned());
                self.method = Some(serde_json::from_value(word).map_err(|_| format!("there is no method `{value}`"))?);
            }
            Means::Header => self.headers.push(header(value)?),
            Means::Data if value == "@-" => {
                let text = stdin.ok_or("`@-` reads an input that the line does not give it")?;
                self.data.push(text.replace(['\r', '\n'], ""));
            }
            Means::Data if value.starts_with('@') => return Err(format!("`{value}` reads a file of this machine")),
            Means::Data | Means::DataAsIs => self.data.push(value.to_owned()),
            Means::UserAgent => self.headers.push(("User-Agent".to_owned(), value.to_owned())),
            Means::Timeout => self.timeout = Some(seconds(value)?),
            Means::Follow => self.follows = true,
            Means::RedirectsMax => self.redirects_max = Some(number(value)?),
            Means::Head => {
                self.is_head = true;
                self.saves = false;
            }
            Means::SaveTo => self.saves = !matches!(value, "/dev/null" | "-" | "/dev/stdout"),
            Means::Discard => self.saves = false,
            Means::Retries => self.retries = number(value)?,
            Means::Tries => self.retries = number::<u16>(value)?.saturating_sub(1),
        }
        Ok(())
    }

    fn finish(self) -> Result<Request, String> {
        let address = self.address.ok_or("it names no address")?;
        if self.saves {
            return Err("it would save the answer to a file; with `-O /dev/null` (wget) or `-o /dev/null` (curl) the \
                        answer becomes the job's output"
                .to_owned());
        }
        let has_data = !self.data.is_empty();
        let method = match self.method {
            Some(method) => method,
            None if self.is_head => Method::Head,
            None if has_data => Method::Post,
            None => Method::Get,
        };
        if has_data && !method.takes_body() {
            return Err(format!("a {} request has no body", method.as_str()));
        }
        let mut call = HttpCall::new(address);
        call.method = method;
        call.body = has_data.then(|| self.data.join("&"));
        let is_typed = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        call.headers.extend(self.headers);
        if has_data && !is_typed {
            call.headers.insert("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned());
        }
        call.timeout = self.timeout.unwrap_or(ANSWER_TIMEOUT);
        if self.follows {
            let most = self.redirects_max.unwrap_or(HttpCall::REDIRECTS_MAX);
            call.follow_redirects = most.min(HttpCall::REDIRECTS_MAX);
        }
        Ok(Request { call, retries: self.retries })
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("the header `{text}` has no colon"))?;
    let (name, value) = (name.trim(), value.trim());
    if value.is_empty() {
        return Err(format!("the header {name} has no value"));
    }
    if HttpCall::is_reserved_header(name) {
        return Err(format!("the header {name} is not for tasks to set"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `10` or `0.5`; no more than a day is worth waiting for.
fn seconds(text: &str) -> Result<Span, String> {
    let secs: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    if !(0.001..=86_400.0).contains(&secs) {
        return Err(format!("{text} seconds are too few or too many to wait for an answer"));
    }
    Ok(Span::from_millis((secs * 1000.0) as i64))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that can be used here"))
}

#[cfg(test)]
mod tests {
    use super::super::shell_words::plain;
    use super::*;

    fn translated(line: &str, stdin: Option<&str>) -> Result<String, String> {
        let words = plain(line).expect("a simple line").words;
        let Request { call, retries } = translate(&words, stdin)?;
        Ok(format!("{} retries {retries}", serde_json::to_string(&call).expect("it is JSON")))
    }

    #[test]
    fn calls_become_the_same_calls() {
        for (line, wanted) in [
            (
                "curl -fsS https://h/x >/dev/null 2>&1",
                r#"{"url":"https://h/x","method":"GET","timeout":"PT15M"} retries 0"#,
            ),
            (
                "/usr/bin/curl -sSLo /dev/null -m 10 --retry 3 'h/x?a=b'",
                r#"{"url":"http://h/x?a=b","method":"GET","follow_redirects":10,"timeout":"PT10S"} retries 3"#,
            ),
            (
                "curl -X PUT -H 'A: b' -d x=1 -d y=2 http://h/",
                r#"{"url":"http://h/","method":"PUT","headers":{"A":"b","Content-Type":"application/x-www-form-urlencoded"},"body":"x=1&y=2","timeout":"PT15M"} retries 0"#,
            ),
            ("curl -I -m0.5 http://h/", r#"{"url":"http://h/","method":"HEAD","timeout":"PT0.5S"} retries 0"#),
            (
                "wget -qO- http://h/",
                r#"{"url":"http://h/","method":"GET","follow_redirects":10,"timeout":"PT15M"} retries 0"#,
            ),
            (
                "wget -nv --spider --tries=3 -T 30 http://h/",
                r#"{"url":"http://h/","method":"HEAD","follow_redirects":10,"timeout":"PT30S"} retries 2"#,
            ),
            (
                "wget -q -O /dev/null --post-data 'a=b' --header 'Content-Type: text/plain' http://h/",
                r#"{"url":"http://h/","method":"POST","headers":{"Content-Type":"text/plain"},"body":"a=b","follow_redirects":10,"timeout":"PT15M"} retries 0"#,
            ),
        ] {
            assert_eq!(translated(line, None).expect(line), wanted, "{line}");
        }
        let sent = translated("curl -d @- http://h/", Some("one\ntwo\n")).expect("it has an input");
        assert!(sent.contains(r#""body":"onetwo""#), "{sent}");
    }

    #[test]
    fn what_has_no_counterpart_is_refused_with_the_flag() {
        for (line, reason) in [
            ("curl -k https://h/", "`-k` has no counterpart here"),
            ("curl -fsu a:b https://h/", "`-u` has no counterpart here"),
            ("curl --proxy p https://h/", "`--proxy` has no counterpart here"),
            ("curl -m", "`-m` has no value"),
            ("curl -m soon http://h/", "`soon` is not a number of seconds"),
            ("curl --silent=1 http://h/", "`--silent` takes no value"),
            ("curl -o page.html http://h/", "it would save the answer to a file"),
            ("wget http://h/", "it would save the answer to a file"),
            ("curl http://a/ http://b/", "several addresses"),
            ("curl ftp://h/", "no address that can be called"),
            ("curl http://", "no address that can be called"),
            ("curl -s", "it names no address"),
            ("curl -d @/etc/passwd http://h/", "reads a file of this machine"),
            ("curl -d @- http://h/", "an input that the line does not give it"),
            ("curl -X GET -d x http://h/", "a GET request has no body"),
            ("curl -X SHOUT http://h/", "there is no method `SHOUT`"),
            ("curl -H Host:x http://h/", "the header Host is not for tasks to set"),
            ("curl -H nonsense http://h/", "has no colon"),
        ] {
            let refused = translated(line, None).expect_err(line);
            assert!(refused.contains(reason), "{line}: {refused}");
        }
    }
}
