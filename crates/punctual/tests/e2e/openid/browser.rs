//! What a browser does in a login: follows redirects, keeps cookies, and sends forms.

use std::collections::BTreeMap;

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Method, Url};

use crate::checked::plain_http;

/// A page at which the browser came to rest.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) url: Url,
    pub(crate) status: u16,
    pub(crate) body: String,
    /// All addresses on the way, with this one.
    pub(crate) way: Vec<String>,
}

/// Its cookies are those of one host: all that tests speak to is on 127.0.0.1, and browsers do not tell ports apart.
pub(crate) struct Browser {
    http: reqwest::Client,
    pub(crate) cookies: BTreeMap<String, String>,
}

const REDIRECTS_MAX: usize = 20;

impl Browser {
    pub(crate) fn new() -> Self {
        Self { http: plain_http(), cookies: BTreeMap::new() }
    }

    pub(crate) async fn open(&mut self, url: &str) -> Page {
        self.go(Method::GET, url.parse().expect("a URL"), None).await
    }

    async fn go(&mut self, method: Method, url: Url, form: Option<Vec<(String, String)>>) -> Page {
        // What a person types is of no site, wherever it leads; a form is of the site of its page.
        let site = if form.is_some() { "cross-site" } else { "none" };
        let (mut method, mut url, mut form, mut way) = (method, url, form, Vec::new());
        for _ in 0..REDIRECTS_MAX {
            way.push(url.to_string());
            let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let mut request = self.http.request(method, url.clone()).header(COOKIE, cookies.join("; "));
            request = request.header("sec-fetch-site", site);
            request = request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
            if let Some(form) = form.take() {
                let mut encoded = Url::parse("http://form").expect("a URL");
                encoded.query_pairs_mut().extend_pairs(form);
                let body = encoded.query().unwrap_or_default().to_owned();
                request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
            }
            let response = request.send().await.expect("an answer");
            for cookie in response.headers().get_all(SET_COOKIE) {
                self.keep(cookie.to_str().expect("ASCII"));
            }
            let status = response.status().as_u16();
            let location = response.headers().get(LOCATION).map(|value| value.to_str().expect("ASCII").to_owned());
            match location {
                Some(location) if (300..400).contains(&status) => {
                    (method, url) = (Method::GET, url.join(&location).expect("an address"));
                }
                _ => return Page { url, status, body: response.text().await.expect("a body"), way },
            }
        }
        panic!("more than {REDIRECTS_MAX} redirects: {way:?}");
    }

    fn keep(&mut self, cookie: &str) {
        let (pair, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
        let (name, value) = pair.split_once('=').expect("a cookie");
        let is_gone = value.is_empty() || attributes.to_ascii_lowercase().contains("max-age=0");
        if is_gone || attributes.contains("1970") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Sends the first form of a page with what it holds already, and these fields.
    pub(crate) async fn submit(&mut self, page: &Page, fields: &[(&str, &str)]) -> Page {
        let form = &page.body[page.body.find("<form").expect("a form")..];
        let end = form.find("</form>").expect("its end");
        let form = &form[..end];
        let action = page.url.join(&attribute(form, "action").expect("an action")).expect("an address");
        let inputs = form.split("<input").skip(1).map(|input| &input[..input.find('>').expect("the end of the input")]);
        let hidden = inputs.filter(|input| attribute(input, "type").as_deref() == Some("hidden"));
        let mut values: Vec<(String, String)> = hidden
            .filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value").unwrap_or_default())))
            .collect();
        values.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.go(Method::POST, action, Some(values)).await
    }

    /// Logs in at the provider and agrees, for as long as it asks, from this page on.
    pub(crate) async fn log_in(&mut self, page: Page, person: &str) -> Page {
        let mut page = page;
        for _ in 0..5 {
            let has = |prompt: &str| page.body.contains(&format!("name=\"prompt\" value=\"{prompt}\""));
            page = match () {
                () if has("login") => self.submit(&page, &[("login", person), ("password", "any")]).await,
                () if has("consent") => self.submit(&page, &[]).await,
                () => return page,
            };
        }
        panic!("the provider asks again and again: {}", page.body);
    }
}

fn attribute(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("{name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}

impl Page {
    /// The content of the element with this id.
    pub(crate) fn text_of(&self, id: &str) -> String {
        let (_, rest) = self.body.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {self:?}"));
        let (_, rest) = rest.split_once('>').expect("the end of the tag");
        rest[..rest.find('<').expect("the next tag")].to_owned()
    }

    /// Where the element with this id leads.
    pub(crate) fn link_of(&self, id: &str) -> String {
        let (_, rest) = self.body.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {self:?}"));
        attribute(rest, "href").expect("a link")
    }

    /// The code of the problem that it is.
    pub(crate) fn problem(&self) -> String {
        let problem: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        problem["code"].as_str().unwrap_or_default().to_owned()
    }
}
