//! What is sent back: a body of some type, or a problem (RFC 9457).

use schemars::JsonSchema;
use serde::Serialize;

/// The type of JSON bodies.
pub const JSON: &str = "application/json";

/// An answer that went well.
#[derive(Debug)]
pub struct Answer {
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Data as JSON.
    pub fn json<T: Serialize>(data: &T) -> Result<Answer, Problem> {
        let body = serde_json::to_vec(data).map_err(|e| Problem::new(500, e.to_string()))?;
        Ok(Answer {
            content_type: JSON,
            body,
        })
    }

    /// Text of a type.
    pub fn text(content_type: &'static str, text: impl Into<String>) -> Answer {
        Answer {
            content_type,
            body: text.into().into_bytes(),
        }
    }
}

/// Why there is no answer (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// The status once more.
    pub status: u16,
    /// What the status means.
    pub title: String,
    /// What is wrong here, and what to do about it.
    pub detail: String,
    /// Methods that there are, for 405.
    #[serde(skip)]
    pub allow: Option<String>,
}

impl Problem {
    /// The type of its body.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";

    /// A problem of this status.
    pub fn new(status: u16, detail: impl Into<String>) -> Problem {
        let title = hyper::StatusCode::from_u16(status)
            .ok()
            .and_then(|s| s.canonical_reason())
            .unwrap_or("Error");
        Problem {
            status,
            title: title.into(),
            detail: detail.into(),
            allow: None,
        }
    }

    /// Who asks has not shown that it may.
    pub fn unauthorized(detail: &str) -> Problem {
        Problem::new(401, detail)
    }

    /// As a body.
    pub fn body(&self) -> Vec<u8> {
        // Three plain fields always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
