//! Reads templates: `{{ value }}`, `{% if %}` and `{% for %}` in Jinja's syntax. Only blocks nest, and to a fixed depth, so that
//! a hostile template cannot use up the stack.

use serde_json::Value;

use super::template::{BadTemplate, FILTERS};

/// Tokens within one `{{ … }}` or `{% … %}`.
const TOKENS_MAX: usize = 150;
/// Blocks within blocks.
const BLOCKS_MAX: usize = 20;

/// A part of a template, with the line that it begins in.
pub(super) struct Node<'s> {
    pub(super) line: usize,
    pub(super) part: Part<'s>,
}

pub(super) enum Part<'s> {
    Text(&'s str),
    Print(Operand<'s>),
    If { branches: Vec<(Condition<'s>, Vec<Node<'s>>)>, otherwise: Vec<Node<'s>> },
    For { name: &'s str, list: Operand<'s>, only: Option<Condition<'s>>, body: Vec<Node<'s>>, otherwise: Vec<Node<'s>> },
}

/// Alternatives (`or`) of tests that all hold (`and`).
pub(super) struct Condition<'s>(pub(super) Vec<Vec<Test<'s>>>);

/// A value that is there and not empty, or a comparison by an operator such as `==`.
pub(super) struct Test<'s> {
    pub(super) is_negated: bool,
    pub(super) left: Operand<'s>,
    pub(super) compared: Option<(&'s str, Operand<'s>)>,
}

pub(super) struct Operand<'s> {
    pub(super) base: Base<'s>,
    pub(super) steps: Vec<Step<'s>>,
}

pub(super) enum Base<'s> {
    Name(&'s str),
    Literal(Value),
}

pub(super) enum Step<'s> {
    Key(String),
    /// Counted from the end if it is negative.
    Place(i64),
    Slice(Option<i64>, Option<i64>),
    Filter(&'s str, Option<Value>),
}

#[derive(Debug, PartialEq)]
enum Token<'s> {
    Word(&'s str),
    Literal(Value),
    Sign(&'s str),
}

impl Token<'_> {
    fn refused(&self) -> String {
        let shown = match self {
            Self::Word(text) | Self::Sign(text) => text.chars().take(64).collect(),
            Self::Literal(value) => value.to_string().chars().take(64).collect::<String>(),
        };
        format!("`{shown}` is not allowed here: templates print, compare and loop")
    }
}

pub(super) fn parse(source: &str) -> Result<Vec<Node<'_>>, BadTemplate> {
    // A file ends with a line break that is not meant for the message.
    let mut parser = Parser { rest: source.strip_suffix('\n').unwrap_or(source), line: 1, trims: false };
    match parser.block(0)? {
        (nodes, None) => Ok(nodes),
        (_, Some(tag)) => Err(bad(tag.line, format!("syntax error: `{}` ends nothing", tag.name))),
    }
}

fn bad(line: usize, detail: impl Into<String>) -> BadTemplate {
    BadTemplate { detail: detail.into(), line: Some(line) }
}

struct Parser<'s> {
    rest: &'s str,
    line: usize,
    /// The last tag ended in `-%}`: the spaces after it go.
    trims: bool,
}

/// An `else`, `elif`, `endif` or `endfor`, with what follows its name.
struct Tag<'s> {
    name: &'s str,
    line: usize,
    tokens: Tokens<'s>,
}

impl<'s> Parser<'s> {
    fn take(&mut self, bytes: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// The nodes up to the tag that ends the block, or to the end of the template.
    fn block(&mut self, depth: usize) -> Result<(Vec<Node<'s>>, Option<Tag<'s>>), BadTemplate> {
        if depth > BLOCKS_MAX {
            return Err(bad(self.line, format!("this is too deep: at most {BLOCKS_MAX} blocks within each other")));
        }
        let mut nodes = Vec::new();
        loop {
            let (line, trims) = (self.line, self.trims);
            let tag = self.rest.match_indices('{').find(|(at, _)| self.rest[at + 1..].starts_with(['{', '%', '#']));
            let mut text = self.take(tag.map_or(self.rest.len(), |(at, _)| at));
            if trims {
                text = text.trim_start();
            }
            if self.rest[2.min(self.rest.len())..].starts_with('-') {
                text = text.trim_end();
            }
            if !text.is_empty() {
                nodes.push(Node { line, part: Part::Text(text) });
            }
            if self.rest.is_empty() {
                return Ok((nodes, None));
            }
            let line = self.line;
            let part = match self.take(2) {
                "{{" => self.tokens("}}").and_then(|mut tokens| tokens.whole(Tokens::operand)).map(Part::Print),
                "{%" => {
                    let mut tokens = self.tokens("%}").map_err(|detail| bad(line, detail))?;
                    match tokens.word().map_err(|detail| bad(line, detail))? {
                        "if" => Ok(self.branches(line, tokens, depth)?),
                        "for" => Ok(self.each(line, tokens, depth)?),
                        name @ ("else" | "elif" | "endif" | "endfor") => {
                            if name != "elif" {
                                tokens.whole(|_| Ok(())).map_err(|detail| bad(line, detail))?;
                            }
                            return Ok((nodes, Some(Tag { name, line, tokens })));
                        }
                        other => Err(Token::Word(other).refused()),
                    }
                }
                _ => {
                    let end = self.rest.find("#}").ok_or_else(|| bad(line, "syntax error: `{#` is not closed"))?;
                    self.trims = self.take(end + 2).ends_with("-#}");
                    continue;
                }
            };
            nodes.push(Node { line, part: part.map_err(|detail| bad(line, detail))? });
        }
    }

    fn branches(&mut self, line: usize, tokens: Tokens<'s>, depth: usize) -> Result<Part<'s>, BadTemplate> {
        let mut branches = Vec::new();
        let mut tag = Tag { name: "elif", line, tokens };
        loop {
            let condition = tag.tokens.whole(Tokens::condition).map_err(|detail| bad(tag.line, detail))?;
            let (body, end) = self.block(depth + 1)?;
            branches.push((condition, body));
            match end {
                Some(next) if next.name == "elif" => tag = next,
                end => return Ok(Part::If { branches, otherwise: self.otherwise(line, end, "endif", depth)? }),
            }
        }
    }

    fn each(&mut self, line: usize, mut tokens: Tokens<'s>, depth: usize) -> Result<Part<'s>, BadTemplate> {
        let (name, list, only) = tokens.whole(Tokens::each).map_err(|detail| bad(line, detail))?;
        let (body, end) = self.block(depth + 1)?;
        Ok(Part::For { name, list, only, body, otherwise: self.otherwise(line, end, "endfor", depth)? })
    }

    /// What stands between an `else`, if that is how the block goes on, and the block's end.
    fn otherwise(
        &mut self,
        line: usize,
        mut end: Option<Tag<'s>>,
        closing: &str,
        depth: usize,
    ) -> Result<Vec<Node<'s>>, BadTemplate> {
        let mut nodes = Vec::new();
        if end.as_ref().is_some_and(|tag| tag.name == "else") {
            (nodes, end) = self.block(depth + 1)?;
        }
        match end {
            Some(tag) if tag.name == closing => Ok(nodes),
            Some(tag) => Err(bad(tag.line, format!("syntax error: `{}` in the place of `{closing}`", tag.name))),
            None => Err(bad(line, format!("syntax error: there is no `{closing}` for this"))),
        }
    }

    /// The tokens up to the end of a tag.
    fn tokens(&mut self, end: &str) -> Result<Tokens<'s>, String> {
        self.take(usize::from(self.rest.starts_with('-')));
        let mut tokens = Vec::new();
        loop {
            self.take_while(char::is_whitespace);
            self.trims = self.rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(end));
            if self.trims || self.rest.starts_with(end) {
                self.take(end.len() + usize::from(self.trims));
                tokens.reverse();
                return Ok(Tokens(tokens));
            }
            let first = self.rest.chars().next().ok_or_else(|| format!("syntax error: there is no `{end}`"))?;
            tokens.push(match first {
                '\'' | '"' => {
                    let text = self.rest[1..].split_once(first).ok_or("syntax error: a text is not closed")?.0;
                    self.take(text.len() + 2);
                    Token::Literal(text.into())
                }
                '0'..='9' | '-' => {
                    self.take(usize::from(first == '-'));
                    let digits = self.take_while(|c| c.is_ascii_digit());
                    let number: i64 = digits.parse().map_err(|_| "syntax error: this is not a number")?;
                    Token::Literal(if first == '-' { -number } else { number }.into())
                }
                c if c.is_alphabetic() || c == '_' => Token::Word(self.take_while(|c| c.is_alphanumeric() || c == '_')),
                c => {
                    let is_double = ["==", "!=", "<=", ">="].iter().any(|double| self.rest.starts_with(double));
                    Token::Sign(self.take(if is_double { 2 } else { c.len_utf8() }))
                }
            });
            if tokens.len() > TOKENS_MAX {
                return Err(format!("this is too long: at most {TOKENS_MAX} words and signs between braces"));
            }
        }
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'s str {
        self.take(self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len()))
    }
}

/// What stands in one tag, the next last.
struct Tokens<'s>(Vec<Token<'s>>);

impl<'s> Tokens<'s> {
    fn next(&mut self) -> Result<Token<'s>, String> {
        self.0.pop().ok_or_else(|| "syntax error: something is missing before the end".to_owned())
    }

    fn word(&mut self) -> Result<&'s str, String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(other.refused()),
        }
    }

    /// Takes the next token if it is this word or sign.
    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = matches!(self.0.last(), Some(Token::Word(found) | Token::Sign(found)) if *found == wanted);
        is_next && self.0.pop().is_some()
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        if self.takes(wanted) { Ok(()) } else { Err(self.next()?.refused()) }
    }

    fn literal(&mut self) -> Option<Value> {
        self.0.pop_if(|token| matches!(token, Token::Literal(_))).and_then(|token| match token {
            Token::Literal(value) => Some(value),
            Token::Word(_) | Token::Sign(_) => None,
        })
    }

    /// Reads all of the tag.
    fn whole<T>(&mut self, read: fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let found = read(self)?;
        self.0.last().map_or(Ok(found), |token| Err(token.refused()))
    }

    /// `NAME in LIST`, `NAME in LIST if CONDITION`.
    fn each(&mut self) -> Result<(&'s str, Operand<'s>, Option<Condition<'s>>), String> {
        let name = self.word()?;
        self.expect("in")?;
        let list = self.operand()?;
        let only = if self.takes("if") { Some(self.condition()?) } else { None };
        Ok((name, list, only))
    }

    fn condition(&mut self) -> Result<Condition<'s>, String> {
        let (mut any, mut all) = (Vec::new(), vec![self.test()?]);
        loop {
            if self.takes("and") {
                all.push(self.test()?);
            } else if self.takes("or") {
                any.push(std::mem::replace(&mut all, vec![self.test()?]));
            } else {
                any.push(all);
                return Ok(Condition(any));
            }
        }
    }

    fn test(&mut self) -> Result<Test<'s>, String> {
        let mut is_negated = false;
        while self.takes("not") {
            is_negated = !is_negated;
        }
        let left = self.operand()?;
        let compared = match self.0.last() {
            Some(Token::Sign(sign @ ("==" | "!=" | "<" | "<=" | ">" | ">="))) => Some(*sign),
            _ => None,
        };
        let compared = compared.map(|sign| self.next().and_then(|_| Ok((sign, self.operand()?)))).transpose()?;
        Ok(Test { is_negated, left, compared })
    }

    fn operand(&mut self) -> Result<Operand<'s>, String> {
        let base = match self.next()? {
            Token::Word(word @ ("and" | "or" | "not" | "in" | "if" | "is")) => return Err(Token::Word(word).refused()),
            Token::Word(name) => Base::Name(name),
            Token::Literal(value) => Base::Literal(value),
            sign @ Token::Sign(_) => return Err(sign.refused()),
        };
        let mut steps = Vec::new();
        loop {
            if self.takes(".") {
                steps.push(Step::Key(self.word()?.to_owned()));
            } else if self.takes("[") {
                steps.push(self.subscript()?);
                self.expect("]")?;
            } else if self.takes("|") {
                steps.push(self.filter()?);
            } else {
                return Ok(Operand { base, steps });
            }
        }
    }

    /// What stands in `[…]`: a key, a place, or `from:to`.
    fn subscript(&mut self) -> Result<Step<'s>, String> {
        let number = |value: Option<Value>| match value {
            Some(Value::String(_)) => Err("a slice is from a number to a number, such as `events[:3]`".to_owned()),
            number => Ok(number.and_then(|number| number.as_i64())),
        };
        match (self.literal(), self.takes(":")) {
            (from, true) => Ok(Step::Slice(number(from)?, number(self.literal())?)),
            (Some(Value::String(key)), false) => Ok(Step::Key(key)),
            (place, false) => Ok(Step::Place(number(place)?.ok_or_else(|| "a place is a number".to_owned())?)),
        }
    }

    fn filter(&mut self) -> Result<Step<'s>, String> {
        let name = self.word()?;
        if !FILTERS.contains(&name) {
            let shown: String = name.chars().take(64).collect();
            return Err(format!("there is no filter `{shown}` here; there are {}", FILTERS.join(", ")));
        }
        let argument = if self.takes("(") {
            let literal = self.literal().ok_or_else(|| format!("`{name}` takes a number or a text in quotes"))?;
            self.expect(")").map(|()| Some(literal))?
        } else {
            None
        };
        Ok(Step::Filter(name, argument))
    }
}
