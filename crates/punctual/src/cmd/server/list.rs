//! `punctual server list`.

use clap::Args;
use punctual_api::ServerList;
use punctual_core::Span;

use crate::context::Context;
use crate::exit::Exit;
use crate::output::counted;
use crate::screen::{self, Look};
use crate::when::parse_span;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Refresh at this interval
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = parse_span)]
    watch: Option<Span>,
}

/// What the table does not say.
fn sentence(list: &ServerList) -> String {
    let servers = counted(list.servers.len(), "server");
    let mut text = format!("{servers}, {}; * answered", counted(list.shards_total.into(), "shard"));
    if !list.shards_unowned.is_empty() {
        let are = if list.shards_unowned.len() == 1 { "is" } else { "are" };
        text += &format!("; {} {are} being taken over", counted(list.shards_unowned.len(), "shard"));
    }
    text
}

pub(crate) async fn list(args: ListArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    loop {
        let list = client.servers().await?;
        let end = sentence(&list);
        let Some(every) = args.watch else {
            context.out.rows(&list.servers, &list)?;
            context.out.hint(&end);
            return Ok(Exit::Ok);
        };
        let look = Look { rows: list.servers.clone(), what: "server", end: Some(end) };
        if !screen::show(&look, every, &context.out)? {
            context.out.rows(&list.servers, &list)?;
        }
        screen::pause(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use crate::table;
    use punctual_api::ServerView;
    use serde_json::json;

    fn server(number: u8, answered: bool) -> ServerView {
        serde_json::from_value(json!({
            "id": format!("server_01m7etg8hwe0sbbaq92e8h11e{number}"), "address": format!("http://127.0.0.1:802{number}"),
            "version": "0.1.0", "roles": ["api", "scheduler"], "state": "alive", "answered": answered,
            "started_at": "2026-01-01T00:00:00Z", "last_seen_at": "2026-01-01T00:00:00Z",
            "shards": [{ "shard": 1, "epoch": 7 }, { "shard": 4, "epoch": 9 }],
            "duties": [{ "name": "retention", "epoch": 3 }], "workers": 2, "running": 17, "lag_us": 1500,
            "skew_us": -250,
        }))
        .unwrap()
    }

    #[test]
    fn servers_are_readable_at_80_columns() {
        let list =
            ServerList { servers: vec![server(0, true), server(1, false)], shards_total: 5, shards_unowned: vec![3] };
        let narrow = table::draw(&list.servers, &Output::plain(Some(80)));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("*  http://127.0.0.1:8020  alive"), "{narrow}");
        let wide = table::draw(&list.servers, &Output::plain(None));
        assert!(wide.contains("2026-01-01 00:00:00Z") && wide.contains("-250µs"), "{wide}");
        assert_eq!(sentence(&list), "2 servers, 5 shards; * answered; 1 shard is being taken over");
    }
}
