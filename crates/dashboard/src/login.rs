//! The page at which a person logs in with name and password.

use maud::html;

use crate::Page;
use crate::layout;
use crate::text::user;

/// `next` is the page to go to afterwards, `wrong` what was wrong with the last attempt.
pub fn login(next: &str, wrong: Option<&str>) -> Page {
    let main = html! {
        @if let Some(wrong) = wrong { p.error role="alert" { (user(wrong)) } }
        form.form method="post" action="/login" {
            input type="hidden" name="next" value=(next);
            label { "Name" input name="name" autocomplete="username" required autofocus; }
            label { "Password" input name="password" type="password" autocomplete="current-password" required; }
            div.actions { button.first type="submit" { "Log in" } }
        }
        p.muted { "No account? Whoever runs this server adds people: " code { "punctual user create" } }
    };
    layout::bare("Log in", &main)
}
