//! Tests of `parshall ctl` without a terminal, against a router on a real socket.

use super::*;
use crate::testing::Router;
use clap::Parser;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: CtlArgs,
}

/// Runs `parshall ctl` with these arguments and this standard input: what it printed and its error.
fn ctl(router: &Router, arguments: &[&str], input: &str) -> (String, Option<String>) {
    let path = router.path();
    let mut all = vec!["ctl", "--socket", path.to_str().expect("UTF-8")];
    all.extend(arguments);
    let args = Command::try_parse_from(all).expect("arguments").args;
    let mut out = Vec::new();
    let error = match run_with(args, &mut input.as_bytes(), &mut out) {
        Ok(()) => None,
        Err(Failure::Told(why)) => Some(why),
        Err(Failure::Pipe) => Some("pipe".into()),
    };
    (String::from_utf8(out).expect("UTF-8"), error)
}

#[test]
fn one_command() {
    let router = Router::start();
    assert_eq!(
        ctl(&router, &["show", "version"], ""),
        ("version 1\n".into(), None)
    );
    assert_eq!(
        ctl(&router, &["show version"], ""),
        ("version 1\n".into(), None)
    );
    assert_eq!(ctl(&router, &["silent"], ""), (String::new(), None));
    assert_eq!(
        ctl(&router, &["fail"], ""),
        (String::new(), Some("it fails".into()))
    );
    assert_eq!(
        ctl(&router, &["block", "{ a b }"], ""),
        (" a b \n".into(), None)
    );
}

#[test]
fn json_before_or_behind_the_command() {
    let router = Router::start();
    for arguments in [["--json", "show", "version"], ["show", "version", "--json"]] {
        assert_eq!(
            ctl(&router, &arguments, ""),
            ("{\"version\":1}\n".into(), None)
        );
    }
    assert_eq!(
        ctl(&router, &["--json", "silent"], ""),
        ("{\"text\":\"\"}\n".into(), None)
    );
}

#[test]
fn a_question_mark_asks_for_help() {
    let router = Router::start();
    let (text, error) = ctl(&router, &["show", "?"], "");
    assert!(text.contains("version") && error.is_none(), "{text}");
}

#[test]
fn a_file_runs_to_its_first_error_and_names_its_line() {
    let router = Router::start();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("start.cli");
    std::fs::write(
        &path,
        "# start\nshow version\nblock {\n x\n}\n\nfail\nshow version\n",
    )
    .expect("written");
    let name = path.display().to_string();
    let (text, error) = ctl(&router, &["-f", &name], "");
    assert_eq!(text, "version 1\n\n x\n");
    assert_eq!(error, Some(format!("{name}:7: it fails")));
    std::fs::write(&path, "show version\nblock {\n").expect("written");
    let (text, error) = ctl(&router, &["-f", &name], "");
    assert_eq!(text, "version 1\n");
    assert!(
        error
            .as_deref()
            .is_some_and(|e| e.starts_with(&format!("{name}:2: this '{{' is never closed"))),
        "{error:?}"
    );
    let (_, error) = ctl(&router, &["-f", "/nonexistent/file"], "");
    assert!(
        error
            .as_deref()
            .is_some_and(|e| e.starts_with("/nonexistent/file: ")),
        "{error:?}"
    );
}

#[test]
fn standard_input_is_executed_as_it_comes() {
    let router = Router::start();
    let (text, error) = ctl(&router, &[], "show \\\n version\nblock {\n x }\n# end\n");
    assert_eq!((text.as_str(), error), ("version 1\n\n x \n", None));
    let (text, error) = ctl(
        &router,
        &["-f", "-"],
        "show version\nsilent\nshow nothing\nshow version",
    );
    assert_eq!(text, "version 1\n");
    assert!(
        error
            .as_deref()
            .is_some_and(|e| e.starts_with("standard input:3: unknown word 'nothing'")),
        "{error:?}"
    );
    let (_, error) = ctl(&router, &[], "silent\nblock { x\n\n");
    assert!(
        error
            .as_deref()
            .is_some_and(|e| e.starts_with("standard input:2: this '{' is never closed")),
        "{error:?}"
    );
}

#[test]
fn a_router_that_is_not_there_is_explained() {
    let mut router = Router::start();
    router.server.stop();
    let (_, error) = ctl(&router, &["show", "version"], "");
    assert!(
        error
            .as_deref()
            .is_some_and(|e| e.contains("parshall run -c")),
        "{error:?}"
    );
}

/// A reader that had enough, as `head` has.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_error_to_report() {
    let router = Router::start();
    let path = router.path();
    let args = Command::try_parse_from([
        "ctl",
        "--socket",
        path.to_str().expect("UTF-8"),
        "show",
        "version",
    ])
    .expect("arguments")
    .args;
    assert!(matches!(
        run_with(args, &mut io::empty(), &mut Closed),
        Err(Failure::Pipe)
    ));
}

/// Takes so many lines, then is closed.
struct Lines(Vec<u8>, usize);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = self.0.iter().filter(|b| **b == b'\n').count();
        if lines == self.1 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_command_is_watched_until_nobody_reads() {
    let router = Router::start();
    let path = router.path();
    let words = [
        "ctl",
        "--socket",
        path.to_str().expect("UTF-8"),
        "--watch=0.1",
    ];
    let watch = |command: &str| {
        let all = words.into_iter().chain([command]);
        let args = Command::try_parse_from(all).expect("arguments").args;
        let mut out = Lines(Vec::new(), 3);
        let end = run_with(args, &mut io::empty(), &mut out);
        (String::from_utf8(out.0).expect("UTF-8"), end)
    };
    let (text, end) = watch("show version");
    assert!(matches!(end, Err(Failure::Pipe)), "{end:?} {text}");
    assert_eq!(text.matches("version 1\n").count(), 3);
    let (text, end) = watch("fail");
    assert!(matches!(end, Err(Failure::Told(why)) if why == "it fails"));
    assert_eq!(text, "");
    for wrong in ["--watch=0", "--watch=-1", "--watch=x", "--watch=1e300"] {
        assert!(Command::try_parse_from(["ctl", wrong, "show"]).is_err());
    }
    assert!(Command::try_parse_from(["ctl", "--watch"]).is_err());
    let usual = Command::try_parse_from(["ctl", "--watch", "show", "drops"]).expect("arguments");
    assert_eq!(usual.args.watch, Some(Duration::from_secs(1)));
    assert_eq!(usual.args.command, ["show", "drops"]);
}
