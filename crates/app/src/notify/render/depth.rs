//! How deep a template is, read from its tokens before anything is built of them.
//!
//! Parsing, checking, compiling and dropping recurse, and a stack that overflows ends the server. The parser's own limit
//! leaves out chains such as `a.a.a` and `not not a`. What is short and shallow by these limits needs little stack.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::template::BadTemplate;

/// Tokens within one `{{ … }}` or `{% … %}`, as each may make the expression one level deeper.
const TOKENS_MAX: usize = 150;
/// Brackets within brackets; each takes the parser through all of its levels of precedence.
const BRACKETS_MAX: usize = 10;
/// Blocks within blocks. An `elif` counts as one, as it stands within the `else` of what is before it.
const BLOCKS_MAX: usize = 20;

pub(super) fn check(source: &str) -> Result<(), BadTemplate> {
    let mut depth = Depth::default();
    for token in tokenize(source, false, SyntaxConfig::default()) {
        let (token, span) = token?;
        depth.step(&token, span)?;
    }
    Ok(())
}

#[derive(Default)]
struct Depth {
    /// Since the last `{{` or `{%`.
    tokens: usize,
    brackets: usize,
    /// How many levels each open block takes.
    blocks: Vec<usize>,
    /// Whether the next token is the name of a statement.
    is_name: bool,
}

impl Depth {
    fn step(&mut self, token: &Token<'_>, span: Span) -> Result<(), BadTemplate> {
        let is_name = std::mem::replace(&mut self.is_name, matches!(token, Token::BlockStart));
        match token {
            Token::VariableStart | Token::BlockStart => (self.tokens, self.brackets) = (0, 0),
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => self.brackets += 1,
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.brackets = self.brackets.saturating_sub(1);
            }
            Token::Ident(name) if is_name => self.statement(name),
            // The rest makes nothing deeper than by being one more.
            _ => {}
        }
        self.tokens += 1;
        if self.tokens > TOKENS_MAX {
            let detail = format!("this is too long: at most {TOKENS_MAX} words and signs between braces; split it up");
            return Err(bad(detail, span));
        }
        if self.brackets > BRACKETS_MAX {
            return Err(bad(format!("this is too deep: at most {BRACKETS_MAX} brackets within each other"), span));
        }
        if self.blocks.iter().sum::<usize>() > BLOCKS_MAX {
            let detail =
                format!("this is too deep: at most {BLOCKS_MAX} blocks within each other, with each elif as one");
            return Err(bad(detail, span));
        }
        Ok(())
    }

    /// An end that does not fit to its begin is an error of the parser, which goes no deeper then.
    fn statement(&mut self, name: &str) {
        match name {
            "for" | "if" | "with" | "set" | "filter" | "autoescape" => self.blocks.push(1),
            "elif" => self.blocks.iter_mut().next_back().into_iter().for_each(|levels| *levels += 1),
            name if name.starts_with("end") => drop(self.blocks.pop()),
            _ => {}
        }
    }
}

fn bad(detail: String, span: Span) -> BadTemplate {
    BadTemplate { detail, line: Some(span.start_line.into()) }
}
