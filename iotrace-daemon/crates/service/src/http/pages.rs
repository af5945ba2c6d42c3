//! What is answered to which path.

use std::{
    convert::Infallible,
    io::Write as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use flate2::{Compression, write::GzEncoder};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::{
        ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap,
        HeaderValue, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    },
};

use tokio::sync::OwnedSemaphorePermit;

use super::{Site, auth::Access};
use crate::{
    front::{HEALTHY, Kind, STALLED},
    metrics::Format,
};

type Page = Response<Answer>;

/// A body that keeps the request's place until it is sent.
pub struct Answer {
    text: Full<Bytes>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.text).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.text.size_hint()
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Why there is no page.
const NO_ANSWER: &str = "the tracing process does not answer\n";

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
        return Ok(health(site).await);
    }
    let Ok(place) = Arc::clone(&site.requests).try_acquire_owned() else {
        return Ok(busy("as many requests as may be are being answered\n"));
    };
    let mut page = answer_by(&request, site).await;
    page.body_mut()._place = Some(place);
    Ok(page)
}

/// Answers a request that has a place.
async fn answer_by(request: &Request<Incoming>, site: &Site) -> Page {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .map(HeaderValue::as_bytes);
    let access = site.auth.access(header).await;
    if access == Access::Busy {
        return busy("too many passwords are being checked\n");
    }
    if access == Access::Denied {
        let mut page = page(
            StatusCode::UNAUTHORIZED,
            TEXT,
            "name and password, please\n".into(),
        );
        let realm = HeaderValue::from_static("Basic realm=\"iotrace\", charset=\"UTF-8\"");
        page.headers_mut().insert(WWW_AUTHENTICATE, realm);
        return page;
    }
    match request.uri().path() {
        "/" => page(StatusCode::OK, HTML, INDEX.into()),
        "/metrics" => exposition(site, request.headers()).await,
        "/status" => match site.tracer.page(Kind::Status).await {
            Some(text) => page_of(StatusCode::OK, JSON, text),
            None => busy(NO_ANSWER),
        },
        _ => page(StatusCode::NOT_FOUND, TEXT, "no such page: see /\n".into()),
    }
}

fn busy(why: &str) -> Page {
    let mut page = page(StatusCode::SERVICE_UNAVAILABLE, TEXT, why.into());
    let headers = page.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    page
}

async fn health(site: &Site) -> Page {
    match site.tracer.page(Kind::Health).await {
        Some(text) if text == HEALTHY => page_of(StatusCode::OK, TEXT, text),
        // The tracer says so, or says nothing.
        _ => page_of(StatusCode::SERVICE_UNAVAILABLE, TEXT, STALLED.into()),
    }
}

async fn exposition(site: &Site, headers: &HeaderMap) -> Page {
    let format = format(headers);
    let kind = match format {
        Format::OpenMetrics => Kind::OpenMetrics,
        Format::Text => Kind::TextMetrics,
    };
    let Some(text) = site.tracer.page(kind).await else {
        return busy(NO_ANSWER);
    };
    let packed = takes_gzip(headers).then(|| packed(&text)).flatten();
    let is_packed = packed.is_some();
    let mut page = page_of(
        StatusCode::OK,
        format.content_type(),
        packed.unwrap_or(text),
    );
    let headers = page.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if is_packed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    page
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

/// Whether the client reads gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let codings = values.filter_map(|value| value.to_str().ok());
    codings.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|weight| ["q=0", "q=0.0", "q=0.00", "q=0.000"].contains(&weight))
    })
}

fn packed(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}

fn page(status: StatusCode, content_type: &'static str, text: String) -> Page {
    page_of(status, content_type, text.into_bytes())
}

fn page_of(status: StatusCode, content_type: &'static str, bytes: Vec<u8>) -> Page {
    let mut page = Response::new(Answer {
        text: Full::new(Bytes::from(bytes)),
        _place: None,
    });
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    page
}
