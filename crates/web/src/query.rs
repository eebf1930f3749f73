//! What a request asks: the words of its path and its query (RFC 3986), decoded and bounded by the header that they came
//! in.

use crate::answer::Problem;

/// The request as handlers see it.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Values of the path's variables, in order.
    pub path: Vec<String>,
    /// Name and value of each part of the query.
    pub pairs: Vec<(String, String)>,
    /// The Accept header.
    pub accept: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Query {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str())
    }

    /// The value of a name, read as a `T`.
    pub fn parsed<T: std::str::FromStr>(
        &self,
        name: &str,
        what: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let wrong = || Problem::new(400, format!("`{name}` is {what}, not `{}`", shown(text)));
        text.parse().map(Some).map_err(|_| wrong())
    }
}

/// A text as an error shows it: short and without control characters.
pub fn shown(text: &str) -> String {
    text.chars()
        .take(100)
        .flat_map(char::escape_debug)
        .collect()
}

/// The parts of a query.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let parts = query.split('&').filter(|p| !p.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((
                decoded(&name.replace('+', " "))?,
                decoded(&value.replace('+', " "))?,
            ))
        })
        .collect()
}

/// A text without its percent encoding.
pub fn decoded(text: &str) -> Result<String, Problem> {
    let wrong = || {
        Problem::new(
            400,
            format!("`{}` is not percent-encoded UTF-8", shown(text)),
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_or_refused() {
        assert_eq!(decoded("memif0%2F0").unwrap(), "memif0/0");
        assert_eq!(decoded("%c3%A4").unwrap(), "ä");
        for wrong in ["%", "%2", "%zz", "%+1", "%ff", "a%"] {
            assert_eq!(decoded(wrong).unwrap_err().status, 400, "{wrong}");
        }
        let got = pairs("a=1&b=x+y&&c&d=%26").unwrap();
        let want = [("a", "1"), ("b", "x y"), ("c", ""), ("d", "&")];
        assert_eq!(got, want.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let q = Query {
            pairs: got,
            ..Query::default()
        };
        assert_eq!(q.parsed::<u32>("a", "a number").unwrap(), Some(1));
        assert!(q.parsed::<u32>("b", "a number").is_err());
        assert_eq!(q.parsed::<u32>("z", "a number").unwrap(), None);
    }
}
