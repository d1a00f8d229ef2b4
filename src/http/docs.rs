//! `/docs`: the OpenAPI document as pages for people.
//!
//! What lives here: serving Swagger UI out of the program itself, so that it works
//! without a network. What must not: what the pages say; that stands at the routes.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Path,
    http::{Uri, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use utoipa_swagger_ui::{Config, SwaggerFile, serve};

use super::{
    Api,
    problem::{self, Problem},
    query::{Nothing, Query},
};

/// The pages load from this service only, and so can't be made to talk to another.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
     base-uri 'self'; frame-ancestors 'none'";

/// Everything below `/docs`. Links are relative, so that the pages also work behind a
/// proxy that puts a prefix before them.
pub(super) fn undescribed() -> Router<Api> {
    // The badge of the default settings would ask an outside server for its opinion.
    let config = Config::new(["../openapi.json"])
        .validator_url("none")
        // Without the bar on which a visitor could load another document.
        .use_base_layout()
        .display_request_duration(true);
    let config = Arc::new(config);
    let first = config.clone();
    Router::new()
        .route(
            "/docs",
            get(move |uri: Uri, Query(()): Query<Nothing>| index(first, uri)),
        )
        .route("/docs/", get(|| async { Redirect::permanent("../docs") }))
        .route(
            "/docs/{*name}",
            get(move |uri: Uri, Path(name): Path<String>| file(name, config, uri)),
        )
}

/// The first page. It stands at `/docs`, and what it names stands one below.
async fn index(config: Arc<Config<'static>>, uri: Uri) -> Response {
    match find("index.html", config) {
        Ok(Some(file)) => {
            let page = String::from_utf8_lossy(&file.bytes);
            let page = page
                .replacen("<head>", "<head><base href=\"docs/\">", 1)
                .replacen("Swagger UI</title>", "onceledger</title>", 1);
            shown(&file.content_type, page.into())
        }
        Ok(None) => problem::nowhere(uri).await.into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn file(name: String, config: Arc<Config<'static>>, uri: Uri) -> Response {
    match find(&name, config) {
        Ok(Some(file)) => shown(&file.content_type, file.bytes.into_owned().into()),
        Ok(None) => problem::nowhere(uri).await.into_response(),
        Err(problem) => problem.into_response(),
    }
}

fn find(name: &str, config: Arc<Config<'static>>) -> Result<Option<SwaggerFile<'static>>, Problem> {
    serve(name, config).map_err(|error| {
        tracing::error!(%error, name, "a page of the program itself is broken; this is a bug");
        Problem::bug()
    })
}

fn shown(content_type: &str, body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, content_type)];
    let policy = [(header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, policy, body).into_response()
}
