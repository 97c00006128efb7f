//! What an artifact looks like in a table and in detail.

use comfy_table::Cell;
use punctual_api::{ArtifactKind, ArtifactView};

use crate::output::{Format, Output, Row, size_words};
use crate::table::Yield;

pub(crate) fn artifact(out: &Output, artifact: &ArtifactView) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(artifact),
        Format::Name => return out.line(&artifact.id.to_string()),
        Format::Table => {}
    }
    let mut text = format!("{}  {}\n", artifact.id, artifact.state);
    let mut line = |name: &str, value: String| text += &format!("  {name:<8} {value}\n");
    if let Some(name) = &artifact.name {
        line("name", printable(name));
    }
    line("kind", if artifact.kind == ArtifactKind::File { "file" } else { "binary" }.to_owned());
    line("size", format!("{} ({} bytes)", size_words(artifact.size), artifact.size));
    line("sha256", artifact.sha256.clone());
    line("created", out.zone.show(artifact.created_at));
    if let Some(at) = artifact.settled_at {
        line(if artifact.state == "ready" { "arrived" } else { "refused" }, out.zone.show(at));
    }
    if let Some(machine) = &artifact.machine {
        line("machine", machine.clone());
    }
    if let Some(path) = &artifact.path {
        line("path", printable(path));
    }
    if let Some(reason) = &artifact.reason {
        line("reason", printable(reason));
    }
    out.write(&text)
}

/// Without what would break a line or steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

impl Row for ArtifactView {
    const HEADER: &'static [&'static str] = &["ID", "NAME", "STATE", "SIZE", "MACHINE", "CREATED"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Cut("NAME", 20),
        Yield::Drop("MACHINE"),
        Yield::Drop("CREATED"),
        Yield::Drop("SIZE"),
        Yield::Cut("NAME", 8),
        Yield::Drop("NAME"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(printable(self.name.as_deref().unwrap_or("-"))),
            Cell::new(&self.state),
            Cell::new(size_words(self.size)),
            Cell::new(self.machine.as_deref().unwrap_or("-")),
            Cell::new(out.time(self.created_at)),
        ]
    }
}
