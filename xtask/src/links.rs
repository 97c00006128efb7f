//! Every relative link in the docs leads somewhere.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::shell::root;

pub(crate) fn check() -> anyhow::Result<()> {
    eprintln!("\nchecking links in the docs");
    let mut pages = Vec::new();
    markdown_in(&root(), &mut pages);
    markdown_in(&root().join("docs"), &mut pages);
    markdown_in(&root().join("docs/adr"), &mut pages);
    let mut dead = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page)?;
        let folder = page.parent().unwrap_or(Path::new("."));
        for target in targets(&text).filter(|target| !folder.join(target).exists()) {
            dead.push(format!("{} → {target}", page.display()));
        }
    }
    if !dead.is_empty() {
        bail!("these links lead nowhere:\n  {}", dead.join("\n  "));
    }
    Ok(())
}

fn markdown_in(folder: &Path, pages: &mut Vec<PathBuf>) {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    pages.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
}

/// What `[…](target)` points at, without anchors and addresses elsewhere.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = links.map(|link| link.split('#').next().unwrap_or(link));
    paths.filter(|path| !path.is_empty() && !path.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_are_found_and_others_left_alone() {
        let text = "[a](docs/a.md) [b](https://example.com) [c](#here) [d](d.md#there)";
        assert_eq!(targets(text).collect::<Vec<_>>(), ["docs/a.md", "d.md"]);
    }
}
