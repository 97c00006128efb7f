//! Styles and scripts, in the binary. Their addresses have a digest of their content, so browsers keep them for good.

use std::sync::LazyLock;

use punctual_core::hex;
use sha2::{Digest, Sha256};

/// A file that pages refer to.
#[derive(Debug)]
pub struct Asset {
    pub content_type: &'static str,
    pub content: &'static str,
    /// Such as `style-1f2e3d4c.css`.
    pub name: String,
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| new("style", "css", "text/css; charset=utf-8", include_str!("assets/style.css")));
pub(crate) static LIVE: LazyLock<Asset> =
    LazyLock::new(|| new("live", "js", JAVASCRIPT, include_str!("assets/live.js")));
pub(crate) static PAGE: LazyLock<Asset> =
    LazyLock::new(|| new("page", "js", JAVASCRIPT, include_str!("assets/page.js")));
pub(crate) static LOG: LazyLock<Asset> = LazyLock::new(|| new("log", "js", JAVASCRIPT, include_str!("assets/log.js")));
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

fn new(stem: &str, ending: &str, content_type: &'static str, content: &'static str) -> Asset {
    let digest = hex::encode(&Sha256::digest(content)[..4]);
    Asset { content_type, content, name: format!("{stem}-{digest}.{ending}") }
}

/// The file with this name.
pub fn asset(name: &str) -> Option<&'static Asset> {
    [&*STYLE, &*LIVE, &*PAGE, &*LOG, &*ICON].into_iter().find(|asset| asset.name == name)
}

pub(crate) fn address(asset: &Asset) -> String {
    format!("/assets/{}", asset.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_loads_is_small() {
        // Nothing here compresses what it sends, so these are the sizes on the wire.
        let scripts = LIVE.content.len() + PAGE.content.len() + LOG.content.len();
        assert!(scripts < 40_000, "{scripts} bytes of scripts");
        assert!(STYLE.content.len() < 24_000, "{} bytes of styles", STYLE.content.len());
    }

    #[test]
    fn an_asset_is_found_by_its_name_alone() {
        assert!(asset(&STYLE.name).is_some());
        assert!(asset("style.css").is_none() && asset("../style.css").is_none());
    }
}
