//! The problems that a kind of call can answer, for its OpenAPI entry.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses,
    openapi::{
        ContentBuilder, HeaderBuilder, Ref, RefOr, Response, ResponseBuilder, Type,
        schema::ObjectBuilder,
    },
};

use super::problem::MEDIA_TYPE;

/// Of every call that reads or writes the books.
pub(super) struct QueryProblems;

/// Of every call that also takes a body.
pub(super) struct BodyProblems;

type Responses = BTreeMap<String, RefOr<Response>>;

impl IntoResponses for QueryProblems {
    fn responses() -> Responses {
        BTreeMap::from([
            problem(
                "422",
                "invalid_request: a parameter, header or field breaks a rule; names both",
            ),
            unavailable(),
            bug(),
        ])
    }
}

impl IntoResponses for BodyProblems {
    fn responses() -> Responses {
        let mut responses = QueryProblems::responses();
        responses.extend([
            problem(
                "400",
                "malformed_json: the body is no JSON document; incomplete_body: it broke off",
            ),
            problem(
                "413",
                "too_large: the body, or one event, has too many bytes",
            ),
            problem(
                "415",
                "unsupported_media_type: the body must come as JSON, not compressed",
            ),
        ]);
        responses
    }
}

/// One answer that is a problem.
pub(super) fn problem(status: &str, description: &str) -> (String, RefOr<Response>) {
    (status.to_owned(), RefOr::T(described(description).build()))
}

fn unavailable() -> (String, RefOr<Response>) {
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .build();
    let header = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("After how many seconds to send the same again"))
        .build();
    let response = described("busy or database_unavailable: send the same again")
        .header("Retry-After", header)
        .build();
    ("503".to_owned(), RefOr::T(response))
}

fn bug() -> (String, RefOr<Response>) {
    problem("500", "internal_error: a bug of the service")
}

fn described(description: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new().description(description).content(
        MEDIA_TYPE,
        ContentBuilder::new().schema(Some(schema)).build(),
    )
}
