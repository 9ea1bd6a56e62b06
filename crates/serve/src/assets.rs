//! The files of the page.

use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};

use crate::reply::{body_of, hash, tagged};

/// A file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The path under which it is served.
    pub(crate) path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Everything that a page may load and do: its own files, its own requests, and nothing of others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! assets {
    ($($path:literal, $file:literal, $content_type:ident;)*) => {
        &[$(Asset { path: $path, content_type: $content_type, text: include_str!(concat!("page/", $file)) }),*]
    };
}

/// All files.
pub(crate) const ASSETS: &[Asset] = assets! {
    "/", "index.html", HTML;
    "/page.css", "page.css", STYLE;
    "/page.js", "page.js", SCRIPT;
    "/api.js", "api.js", SCRIPT;
    "/controllers.js", "controllers.js", SCRIPT;
    "/diff.js", "diff.js", SCRIPT;
    "/dom.js", "dom.js", SCRIPT;
    "/events.js", "events.js", SCRIPT;
    "/find.js", "find.js", SCRIPT;
    "/health.js", "health.js", SCRIPT;
    "/indexes.js", "indexes.js", SCRIPT;
    "/informer.js", "informer.js", SCRIPT;
    "/informers.js", "informers.js", SCRIPT;
    "/object.js", "object.js", SCRIPT;
    "/objects.js", "objects.js", SCRIPT;
    "/pages.js", "pages.js", SCRIPT;
    "/ring.js", "ring.js", SCRIPT;
    "/router.js", "router.js", SCRIPT;
    "/spark.js", "spark.js", SCRIPT;
    "/state.js", "state.js", SCRIPT;
    "/stream.js", "stream.js", SCRIPT;
    "/table.js", "table.js", SCRIPT;
    "/theme.js", "theme.js", SCRIPT;
    "/yaml.js", "yaml.js", SCRIPT;
};

/// Returns the file that is served under a path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    /// Returns the response for the file.
    pub(crate) fn response(&'static self, request: &HeaderMap) -> Response {
        let tag = format!("{:016x}", hash(self.text));
        let mut response = tagged(request, &tag, || body_of(self.content_type, self.text));
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file of the folder is served, and no other.
    #[test]
    fn all_files_of_the_page_are_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| ["html", "js", "css"].iter().any(|end| name.ends_with(&format!(".{end}"))))
            .filter(|name| !name.ends_with(".test.js"))
            .map(|name| if name == "index.html" { "/".to_owned() } else { format!("/{name}") })
            .collect();
        let mut served: Vec<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        files.sort_unstable();
        served.sort_unstable();
        assert_eq!(files, served);
    }
}
