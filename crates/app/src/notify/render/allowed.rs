//! Which templates are taken: those that cannot make something large out of something small.
//!
//! Fuel bounds how many steps a template takes, and a limit on the output what it prints; neither bounds what it makes
//! in memory on the way, such as a text that is doubled forty times. So a template may look things up, compare, loop and
//! print, and build nothing.

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::{Span, parse};
use minijinja::syntax::SyntaxConfig;

use super::template::{BadTemplate, FILTERS, TESTS};

pub(super) fn check(source: &str) -> Result<(), BadTemplate> {
    let tree = parse(source, "template", SyntaxConfig::default()).map_err(BadTemplate::from)?;
    statement(&tree)
}

fn statements(all: &[Stmt<'_>]) -> Result<(), BadTemplate> {
    all.iter().try_for_each(statement)
}

fn statement(statement: &Stmt<'_>) -> Result<(), BadTemplate> {
    match statement {
        Stmt::Template(template) => statements(&template.children),
        Stmt::EmitRaw(_) => Ok(()),
        Stmt::EmitExpr(emit) => expression(&emit.expr),
        Stmt::IfCond(cond) => {
            expression(&cond.expr)?;
            statements(&cond.true_body)?;
            statements(&cond.false_body)
        }
        Stmt::ForLoop(each) => {
            if each.recursive {
                return Err(refused("a recursive loop", each.span()));
            }
            expression(&each.iter)?;
            each.filter_expr.as_ref().map_or(Ok(()), expression)?;
            statements(&each.body)?;
            statements(&each.else_body)
        }
        Stmt::WithBlock(block) => Err(refused("with", block.span())),
        Stmt::Set(set) => Err(refused("set", set.span())),
        Stmt::SetBlock(set) => Err(refused("set", set.span())),
        Stmt::AutoEscape(block) => Err(refused("autoescape", block.span())),
        Stmt::FilterBlock(block) => Err(refused("filter", block.span())),
        Stmt::Do(call) => Err(refused("do", call.span())),
    }
}

fn expression(expr: &Expr<'_>) -> Result<(), BadTemplate> {
    match expr {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::Slice(slice) => {
            // The engine panics for some steps backwards.
            if slice.step.is_some() {
                return Err(refused("a step of a slice", slice.span()));
            }
            // So that each slice of a long text is paid for by looking the text up.
            if !is_path(&slice.expr) {
                return Err(refused("a slice of what is not a name", slice.span()));
            }
            expression(&slice.expr)?;
            [&slice.start, &slice.stop].into_iter().flatten().try_for_each(expression)
        }
        Expr::UnaryOp(op) => expression(&op.expr),
        Expr::BinOp(op) => {
            operator(op.op, op.span())?;
            expression(&op.left)?;
            expression(&op.right)
        }
        Expr::Compare(compare) => {
            expression(&compare.expr)?;
            compare.ops.iter().try_for_each(|op| expression(&op.expr))
        }
        Expr::IfExpr(cond) => {
            expression(&cond.test_expr)?;
            expression(&cond.true_expr)?;
            cond.false_expr.as_ref().map_or(Ok(()), expression)
        }
        Expr::Filter(filter) => {
            known(filter.name, "filter", &FILTERS, filter.span())?;
            filter.expr.as_ref().map_or(Ok(()), expression)?;
            arguments(&filter.args, filter.span())
        }
        Expr::Test(test) => {
            known(test.name, "test", &TESTS, test.span())?;
            expression(&test.expr)?;
            arguments(&test.args, test.span())
        }
        Expr::GetAttr(get) => expression(&get.expr),
        Expr::GetItem(get) => {
            expression(&get.expr)?;
            expression(&get.subscript_expr)
        }
        Expr::Call(call) => Err(refused("a call", call.span())),
        Expr::List(list) => Err(refused("a list of its own", list.span())),
        Expr::Tuple(tuple) => Err(refused("a list of its own", tuple.span())),
        Expr::Map(map) => Err(refused("a map of its own", map.span())),
    }
}

/// `events`, `event.attempts`, `events[0].reason`.
fn is_path(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Var(_) => true,
        Expr::GetAttr(get) => is_path(&get.expr),
        Expr::GetItem(get) => is_path(&get.expr),
        Expr::Const(_)
        | Expr::Slice(_)
        | Expr::UnaryOp(_)
        | Expr::BinOp(_)
        | Expr::Compare(_)
        | Expr::IfExpr(_)
        | Expr::Filter(_)
        | Expr::Test(_)
        | Expr::Call(_)
        | Expr::List(_)
        | Expr::Tuple(_)
        | Expr::Map(_) => false,
    }
}

fn operator(op: BinOpKind, span: Span) -> Result<(), BadTemplate> {
    match op {
        BinOpKind::Eq
        | BinOpKind::Ne
        | BinOpKind::Lt
        | BinOpKind::Lte
        | BinOpKind::Gt
        | BinOpKind::Gte
        | BinOpKind::In
        | BinOpKind::ScAnd
        | BinOpKind::ScOr
        | BinOpKind::Sub
        | BinOpKind::Div
        | BinOpKind::FloorDiv
        | BinOpKind::Rem => Ok(()),
        BinOpKind::Add => Err(refused("+", span)),
        BinOpKind::Mul => Err(refused("*", span)),
        BinOpKind::Pow => Err(refused("**", span)),
        BinOpKind::Concat => Err(refused("~", span)),
    }
}

fn arguments(args: &[CallArg<'_>], span: Span) -> Result<(), BadTemplate> {
    args.iter().try_for_each(|arg| match arg {
        CallArg::Pos(expr) | CallArg::Kwarg(_, expr) => expression(expr),
        CallArg::PosSplat(_) | CallArg::KwargSplat(_) => Err(refused("* before an argument", span)),
    })
}

fn known(name: &str, what: &str, all: &[&str], span: Span) -> Result<(), BadTemplate> {
    if all.contains(&name) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    let detail = format!("there is no {what} `{shown}` here; there are {}", all.join(", "));
    Err(BadTemplate { detail, line: Some(span.start_line.into()) })
}

fn refused(what: &str, span: Span) -> BadTemplate {
    let detail = format!("`{what}` is not allowed: templates print, compare and loop");
    BadTemplate { detail, line: Some(span.start_line.into()) }
}
