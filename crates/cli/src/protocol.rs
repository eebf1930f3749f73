//! What goes over the command socket: one JSON object per line each way, in order.
//!
//! | request | answered with |
//! |---|---|
//! | `{"id":1,"line":"show version"}` | `{"id":1,"ok":true,"text":"..."}` |
//! | `{"id":2,"line":"show version","json":true}` | `{"id":2,"ok":true,"data":{...}}`, or `text` if the command has no data |
//! | `{"id":3,"complete":"show v"}`, with `"cursor":N` (bytes) if it is not at the end | `{"id":3,"ok":true,"candidates":[{"text","help","start"}]}` |
//! | `{"id":4,"help":"show "}` | `{"id":4,"ok":true,"text":"..."}` |
//! | any that fails | `{"id":..,"ok":false,"error":"..."}` |
//!
//! A command that is about a text (`configuration apply`) has it in `"input"`. `id` is any JSON value and comes back as it was; it may be left out.

use parshall_command::{Candidate, Reply, RequestKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where the router listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/parshall/cli.sock";

/// Longest request line in bytes, its end not counted.
pub const MAX_LINE: usize = 8 << 20;

/// A request as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireRequest {
    /// Comes back in the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// A command to execute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// A text that comes with the command, such as a configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Answer as data, where the command has any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// A line to complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<String>,
    /// Byte offset of the cursor in it; the end if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<usize>,
    /// A line to explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl WireRequest {
    /// The question asked and the line it is about.
    ///
    /// # Errors
    /// When it asks nothing, or several things at once.
    pub fn question(self) -> Result<(RequestKind, String), String> {
        match (self.line, self.complete, self.help) {
            (Some(line), None, None) => Ok((RequestKind::Execute { json: self.json }, line)),
            (None, Some(line), None) => {
                let cursor = self.cursor.unwrap_or(line.len());
                Ok((RequestKind::Complete { cursor }, line))
            }
            (None, None, Some(line)) => Ok((RequestKind::Help, line)),
            _ => Err("a request has exactly one of \"line\", \"complete\" and \"help\"".to_owned()),
        }
    }
}

/// A reply as it is written.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireReply {
    /// That of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// Whether it worked.
    pub ok: bool,
    /// What to print.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The result as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<Candidate>>,
    /// Why it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl WireReply {
    /// The reply to request `id`.
    pub fn new(id: Option<Value>, reply: Reply) -> WireReply {
        let blank = WireReply {
            id,
            ok: true,
            ..WireReply::default()
        };
        match reply {
            Reply::Text(text) => WireReply {
                text: Some(text),
                ..blank
            },
            Reply::Data(data) => WireReply {
                data: Some(data),
                ..blank
            },
            Reply::Candidates(all) => WireReply {
                candidates: Some(all),
                ..blank
            },
            Reply::Error(error) => WireReply {
                ok: false,
                error: Some(error),
                ..blank
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str) -> Result<(RequestKind, String), String> {
        serde_json::from_str::<WireRequest>(text)
            .map_err(|e| e.to_string())?
            .question()
    }

    #[test]
    fn requests() {
        assert_eq!(
            question(r#"{"line":"a"}"#),
            Ok((RequestKind::Execute { json: false }, "a".into()))
        );
        assert_eq!(
            question(r#"{"id":[1],"line":"a","json":true}"#),
            Ok((RequestKind::Execute { json: true }, "a".into()))
        );
        assert_eq!(
            question(r#"{"complete":"abc"}"#),
            Ok((RequestKind::Complete { cursor: 3 }, "abc".into()))
        );
        assert_eq!(
            question(r#"{"complete":"abc","cursor":1}"#),
            Ok((RequestKind::Complete { cursor: 1 }, "abc".into()))
        );
        assert_eq!(
            question(r#"{"help":""}"#),
            Ok((RequestKind::Help, String::new()))
        );
        for wrong in [
            "{}",
            r#"{"line":"a","help":"b"}"#,
            r#"{"line":1}"#,
            r#"{"lime":"a"}"#,
            "[]",
            "",
            r#"{"complete":"a","cursor":-1}"#,
        ] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn replies_leave_out_what_they_do_not_have() {
        let text = |reply| {
            serde_json::to_string(&WireReply::new(Some(7.into()), reply)).expect("serializable")
        };
        assert_eq!(
            text(Reply::Text("x".into())),
            r#"{"id":7,"ok":true,"text":"x"}"#
        );
        assert_eq!(
            text(Reply::Error("bad".into())),
            r#"{"id":7,"ok":false,"error":"bad"}"#
        );
        assert_eq!(
            text(Reply::Data(Value::Null)),
            r#"{"id":7,"ok":true,"data":null}"#
        );
    }
}
