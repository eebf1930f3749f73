//! The words of a hsflowd.conf: separated by blanks, `=` and `;`, braces by themselves, quotes around what has any of these, and
//! comments from `#` to the end of the line (host-sflow, `readTokens` in `hsflowconfig.c`).

/// A word and its line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
    /// It stood in quotes: a brace in it is none.
    pub quoted: bool,
}

impl Token<'_> {
    /// Whether it is this brace.
    pub fn is(&self, brace: &str) -> bool {
        !self.quoted && self.text == brace
    }

    /// Whether it is a word rather than a brace.
    pub fn is_word(&self) -> bool {
        !self.is("{") && !self.is("}")
    }
}

const SEPARATORS: &[char] = &[' ', '\t', '\r', '\n', '=', ';'];

/// All words of a text.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut rest = line.split('#').next().unwrap_or("");
        loop {
            rest = rest.trim_start_matches(SEPARATORS);
            if rest.is_empty() {
                break;
            }
            let (text, quoted, after) = first(rest);
            all.push(Token {
                text,
                line: number,
                quoted,
            });
            rest = after;
        }
    }
    all
}

/// The first word of a line that begins with one, and what follows it.
fn first(line: &str) -> (&str, bool, &str) {
    if let Some(inner) = line.strip_prefix('"') {
        // A quote that is not closed reaches to the end of its line.
        let (word, after) = inner.split_once('"').unwrap_or((inner, ""));
        return (word, true, after);
    }
    let end = if line.starts_with(['{', '}']) {
        1
    } else {
        let ends = |c: char| SEPARATORS.contains(&c) || matches!(c, '{' | '}' | '"');
        line.find(ends).unwrap_or(line.len())
    };
    let (word, after) = line.split_at(end);
    (word, false, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_braces_quotes_and_comments() {
        let text = "sflow{ # a { comment\n a=1;b = \"x y{\" }\n\"\"\"open";
        let got: Vec<(usize, &str, bool)> = tokens(text)
            .into_iter()
            .map(|t| (t.line, t.text, t.quoted))
            .collect();
        assert_eq!(
            got,
            [
                (1, "sflow", false),
                (1, "{", false),
                (2, "a", false),
                (2, "1", false),
                (2, "b", false),
                (2, "x y{", true),
                (2, "}", false),
                (3, "", true),
                (3, "open", true),
            ]
        );
    }
}
