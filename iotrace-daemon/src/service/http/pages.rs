//! What is answered to which path.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{
        ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE,
    },
};

use super::Site;
use crate::service::metrics::Format;

type Page = Response<Full<Bytes>>;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The page with the links.
const INDEX: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>iotrace</title></head>\n\
    <body><h1>iotrace</h1>\n<ul>\n<li><a href=\"/metrics\">Metrics</a>, for Prometheus</li>\n\
    <li><a href=\"/status\">Status</a>: the hooks, and what was not counted</li>\n\
    <li><a href=\"/healthz\">Health</a></li>\n</ul></body></html>\n";

/// Answers one request.
pub async fn answer(request: Request<Incoming>, site: &Site) -> Result<Page, Infallible> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut page = page(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "only GET and HEAD\n".into(),
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        page.headers_mut().insert(ALLOW, allowed);
        return Ok(page);
    }
    // Who probes whether the service lives need not say who they are, and learns no more than that.
    if request.uri().path() == "/healthz" {
        return Ok(health(site));
    }
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .map(HeaderValue::as_bytes);
    if !site.auth.allows(header).await {
        let mut page = page(
            StatusCode::UNAUTHORIZED,
            TEXT,
            "name and password, please\n".into(),
        );
        let realm = HeaderValue::from_static("Basic realm=\"iotrace\", charset=\"UTF-8\"");
        page.headers_mut().insert(WWW_AUTHENTICATE, realm);
        return Ok(page);
    }
    Ok(match request.uri().path() {
        "/" => page(StatusCode::OK, HTML, INDEX.into()),
        "/metrics" => exposition(site, format(request.headers())),
        "/status" => page(StatusCode::OK, JSON, site.shared.status_json()),
        _ => page(StatusCode::NOT_FOUND, TEXT, "no such page: see /\n".into()),
    })
}

fn health(site: &Site) -> Page {
    match site.shared.is_healthy() {
        true => page(StatusCode::OK, TEXT, "ok\n".into()),
        false => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, "stalled\n".into()),
    }
}

fn exposition(site: &Site, format: Format) -> Page {
    match site.exporter.encode(format) {
        Ok(text) => page(StatusCode::OK, format.content_type(), text),
        Err(error) => page(
            StatusCode::INTERNAL_SERVER_ERROR,
            TEXT,
            format!("{error}\n"),
        ),
    }
}

/// OpenMetrics for who asks for it; the older text format for all others, people with curl among them.
fn format(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(ACCEPT).iter();
    let wants = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default();
        text.contains("application/openmetrics-text")
    };
    if accepted.into_iter().any(wants) {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

fn page(status: StatusCode, content_type: &'static str, text: String) -> Page {
    let mut page = Response::new(Full::new(Bytes::from(text)));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    page
}
