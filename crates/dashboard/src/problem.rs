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
        p.muted.small { (problem.status) " " code { (problem.code) } ", request " code { (problem.request_id) } }
    };
    layout::bare(&problem.title, &main)
}
