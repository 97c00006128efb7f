//! What went wrong, for people.

use maud::html;
use punctual_api::Problem;

use crate::Page;
use crate::layout;
use crate::text::{code, user};

pub fn problem(problem: &Problem) -> Page {
    let main = html! {
        p.error { (user(&problem.detail)) }
        @if let Some(hint) = &problem.hint { p { (user(hint)) } }
        @if problem.errors.len() > 1 {
            ul { @for error in &problem.errors { li { (code(&error.pointer)) " " (user(&error.detail)) } } }
        }
        p { a href="/" { "To the overview" } }
        // A browser remembers the namespace that somebody looked at, and it may be gone.
        @if matches!(problem.status, 403 | 404) {
            form method="post" action="/preferences" {
                input type="hidden" name="namespace" value="";
                p { button type="submit" { "Look at the default namespace" } }
            }
        }
        p.muted.small { (problem.status) " " code { (problem.code) } ", request " code { (problem.request_id) } }
    };
    layout::bare(&problem.title, &main)
}
