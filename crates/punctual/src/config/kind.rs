//! The types of settings: how a text becomes a value, and which values there are.

use std::path::PathBuf;
use std::str::FromStr;

use punctual_core::Span;
use punctual_core::size::ByteSize;

use super::secrets;
use crate::when::parse_span;

/// Which values a setting may have, for people and for the shell's completions.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Such as `1 to 1024`; empty where the help says it.
    pub(crate) values: String,
    /// All values, if there are only a few.
    pub(crate) choices: Vec<&'static str>,
}

impl Shape {
    pub(super) fn any() -> Self {
        Self::default()
    }
}

type Read<T> = Box<dyn Fn(&str) -> Result<T, String>>;

/// The type of a setting whose values are `T`.
pub(super) struct Kind<T> {
    read: Read<T>,
    shape: Shape,
}

impl<T: 'static> Kind<T> {
    fn new(values: impl Into<String>, read: impl Fn(&str) -> Result<T, String> + 'static) -> Self {
        Self { read: Box::new(read), shape: Shape { values: values.into(), choices: Vec::new() } }
    }

    /// Reads a value, or says what is wrong with it.
    pub(super) fn parse(&self, text: &str) -> Result<T, String> {
        (self.read)(text)
    }

    pub(super) fn shape(self) -> Shape {
        self.shape
    }

    /// A kind that also takes an empty text, which is `None`.
    pub(super) fn or_none(self) -> Kind<Option<T>> {
        let Self { read, shape } = self;
        let read = move |text: &str| if text.is_empty() { Ok(None) } else { read(text).map(Some) };
        Kind { read: Box::new(read), shape }
    }

    /// The values in words, where those of the type do not say it.
    pub(super) fn described(self, values: &str) -> Self {
        Self { shape: Shape { values: values.to_owned(), ..self.shape }, ..self }
    }
}

pub(super) fn text() -> Kind<String> {
    Kind::new("", |text| Ok(text.to_owned()))
}

/// What only one setting has.
pub(super) fn parsed<T: 'static>(parse: fn(&str) -> Result<T, String>) -> Kind<T> {
    Kind::new("", parse)
}

/// What nobody should see, or `@` and the path of a file that holds it.
pub(super) fn secret() -> Kind<String> {
    Kind::new("", secrets::read)
}

/// A secret that is read further.
pub(super) fn secret_of<T: 'static>(parse: impl Fn(&str) -> Result<T, String> + 'static) -> Kind<T> {
    Kind::new("", move |text| parse(&secrets::read(text)?))
}

pub(super) fn folder() -> Kind<PathBuf> {
    Kind::new("a path", |text| match text {
        "" => Err("a folder needs a name".to_owned()),
        _ => Ok(PathBuf::from(text)),
    })
}

pub(super) fn yes_or_no() -> Kind<bool> {
    let read = |text: &str| text.parse().map_err(|_| format!("`{text}` is neither true nor false"));
    Kind::new("true, false", read)
}

pub(super) fn number<T: TryFrom<u64> + 'static>(min: u64, max: u64) -> Kind<T> {
    Kind::new(format!("{min} to {max}"), move |text| {
        let number: Option<u64> = text.trim().replace('_', "").parse().ok();
        let number = number.filter(|number| (min..=max).contains(number)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("`{text}` is not a number from {min} to {max}"))
    })
}

pub(super) fn span(min: Span, max: Span) -> Kind<Span> {
    Kind::new(format!("{} to {}", in_days(min), in_days(max)), move |text| {
        let span = parse_span(text)?;
        if !(min..=max).contains(&span) {
            return Err(format!("{text} is not between {min} and {max}"));
        }
        Ok(span)
    })
}

/// Nobody reads 87600h as ten years.
fn in_days(span: Span) -> String {
    const DAY_US: i64 = 86_400_000_000;
    match span.as_micros() {
        micros if micros > DAY_US && micros % DAY_US == 0 => format!("{}d", micros / DAY_US),
        _ => span.to_string(),
    }
}

pub(super) fn size(min: ByteSize, max: ByteSize) -> Kind<ByteSize> {
    Kind::new(format!("{min} to {max}"), move |text| {
        let size = ByteSize::from_str(text).map_err(|error| error.to_string())?;
        if !(min..=max).contains(&size) {
            return Err(format!("{text} is not between {min} and {max}"));
        }
        Ok(size)
    })
}

/// One of a few words, in whatever case.
pub(super) fn one_of<T: Copy + 'static>(choices: &'static [(&'static str, T)]) -> Kind<T> {
    let names: Vec<&'static str> = choices.iter().map(|(name, _)| *name).collect();
    let listed = names.join(", ");
    let kind = Kind::new(listed.clone(), move |text| {
        let chosen = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        chosen.map(|(_, value)| *value).ok_or_else(|| format!("`{text}` is none of {listed}"))
    });
    Kind { shape: Shape { choices: names, ..kind.shape }, ..kind }
}
