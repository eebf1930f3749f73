//! Rules of the source text that neither rustfmt nor clippy checks: every Rust file opens with `//!`,
//! no file grows past a limit without its tests, no words that mean "not finished" or that belong to
//! one developer's machine, and every relative link of the documents leads somewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines before its tests.
const LIMIT: usize = 900;

/// Words that no file of the project may contain. Each is written in two halves, so that this list
/// passes its own check.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "unfinished: do it or open an issue"),
    (concat!("FIX", "ME"), "unfinished: do it or open an issue"),
    (concat!("XX", "X:"), "unfinished: do it or open an issue"),
    (
        concat!("#[ign", "ore"),
        "a test that does not run proves nothing",
    ),
    (
        concat!("assert!", "(true)"),
        "a test that cannot fail proves nothing",
    ),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("../sha", "red/"), "a path outside the repository"),
    (concat!("<<<<", "<<< "), "an unresolved merge"),
];

/// Folders that hold no text of ours.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts"];

/// File names and endings that are read.
const ENDINGS: &[&str] = &["rs", "toml", "md", "sh", "yaml", "yml", "c", "h", "py"];
const NAMES: &[&str] = &["Makefile", "run"];

/// All findings under `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    walk(root, &mut files).map_err(|e| format!("cannot list the source files: {e}"))?;
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        found.extend(
            judge(&name, &text)
                .into_iter()
                .map(|f| format!("{name}{f}")),
        );
        if name.ends_with(".md") {
            found.extend(
                broken_links(&path, &text)
                    .into_iter()
                    .map(|f| format!("{name}{f}")),
            );
        }
    }
    Ok(found)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            walk(&entry.path(), files)?;
        }
        let ending = name.rsplit_once('.').map(|(_, e)| e);
        if kind.is_file()
            && (ending.is_some_and(|e| ENDINGS.contains(&e)) || NAMES.contains(&name.as_str()))
        {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Findings in one file, each beginning with `:LINE: `.
fn judge(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
            found.push(format!(":{number}: '{word}': {why}"));
        }
    }
    if !name.ends_with(".rs") {
        return found;
    }
    let first = text.lines().next().unwrap_or_default();
    if !first.starts_with("//!") && !first.contains("@generated") {
        found.push(":1: opens without '//!' that says what the file owns".to_owned());
    }
    let length = lines_without_tests(name, text);
    if length > LIMIT {
        found.push(format!(
            ":{LIMIT}: {length} lines without tests; {LIMIT} is the limit, 500 the aim"
        ));
    }
    found
}

/// Lines before the tests at the foot of a file; none in a file that is all tests.
fn lines_without_tests(name: &str, text: &str) -> usize {
    let all_tests = name.ends_with("tests.rs") || name.contains("/tests/");
    if all_tests {
        return 0;
    }
    let at_foot =
        |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
    let mut lines = text.lines().collect::<Vec<_>>();
    // A `#[cfg(test)]` above anything but an inline module is a helper, not the foot.
    let foot = (0..lines.len()).find(|&i| {
        at_foot(lines[i])
            && lines[i + 1..]
                .iter()
                .take(2)
                .any(|l| l.starts_with("mod ") && l.ends_with('{'))
    });
    lines.truncate(foot.unwrap_or(lines.len()));
    lines.len()
}

/// Relative links `](path)` of a markdown file whose target does not exist.
fn broken_links(path: &Path, text: &str) -> Vec<String> {
    let folder = path.parent().unwrap_or(path);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for link in line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap_or_default();
            let relative =
                !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:");
            if relative && !folder.join(target).exists() {
                found.push(format!(":{number}: the link '{link}' leads nowhere"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rust_file_opens_with_its_purpose() {
        assert!(judge("a.rs", "//! Owns a.\n").is_empty());
        assert!(judge("a.rs", "// @generated\n").is_empty());
        assert_eq!(judge("a.rs", "use b;\n").len(), 1);
        assert!(judge("a.md", "use b;\n").is_empty());
    }

    #[test]
    fn length_is_counted_without_tests() {
        let long = format!("//! A.\n{}", "x\n".repeat(LIMIT));
        assert_eq!(judge("a.rs", &long).len(), 1);
        let tested = format!(
            "//! A.\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            "x\n".repeat(LIMIT)
        );
        assert!(judge("a.rs", &tested).is_empty());
        assert!(judge("crates/a/src/tests.rs", &long).is_empty());
        let helper = format!(
            "//! A.\n#[cfg(test)]\nfn help() {{}}\n{}",
            "x\n".repeat(LIMIT)
        );
        assert_eq!(judge("a.rs", &helper).len(), 1);
    }

    #[test]
    fn forbidden_words_are_found_with_their_line() {
        let text = format!("//! A.\n// {}: later\n", FORBIDDEN[0].0);
        assert!(judge("a.rs", &text)[0].starts_with(":2: "));
    }

    #[test]
    fn links_lead_somewhere() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let text = "[a](src/main.rs#x) [b](https://example.org) [c](none.md) [d](#part)";
        assert_eq!(
            broken_links(&here, text),
            [":1: the link 'none.md' leads nowhere"]
        );
    }
}
