//! The prompt: history, completion from the server with Tab, `?` prints help where it stands and
//! leaves the line as it was, open braces continue on the next line, Ctrl-D or `quit` leaves.

use crate::client::{CtlArgs, Failure, Session, wants_more};
use crate::connection::{Connection, ConnectionError};
use parshall_command::{Script, tokenize};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory, KeyCode,
    KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion, ValidationResult, Validator,
    default_emacs_keybindings,
};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Commands kept in the history file.
const HISTORY: usize = 5000;
const MENU: &str = "completions";
/// What the `?` key hands to [`run`].
const HELP_KEY: &str = "help";

/// Reads and executes commands until the user leaves.
pub(crate) fn run(connection: Connection, args: &CtlArgs) -> Result<(), Failure> {
    let mut session = Session {
        connection,
        json: args.json,
        pretty: true,
    };
    let mut editor = editor(&args.socket)?;
    loop {
        match editor
            .read_line(&Plain)
            .map_err(|e| Failure::Told(e.to_string()))?
        {
            Signal::Success(line) if line.trim().is_empty() => {}
            Signal::Success(line) if matches!(line.trim(), "quit" | "exit" | "q") => return Ok(()),
            Signal::Success(line) => execute(&mut session, &args.socket, &line)?,
            Signal::HostCommand(_) => help(&mut editor, &mut session, &args.socket)?,
            Signal::CtrlD => return Ok(()),
            _ => {}
        }
    }
}

/// Executes what was entered, which may be several commands if it was pasted, up to the first that
/// fails; what goes wrong is printed and the prompt comes back.
fn execute(session: &mut Session, socket: &Path, entered: &str) -> Result<(), Failure> {
    for command in Script::new(entered) {
        let done = match command {
            Ok(command) => session.command(command.text, &mut io::stdout().lock()),
            Err(error) => Err(Failure::Told(error.render())),
        };
        match done {
            Ok(()) => {}
            Err(Failure::Told(why)) => {
                println(&why)?;
                // A connection that broke is renewed for the next command; this one may have been executed.
                if why == ConnectionError::Closed.to_string() {
                    reconnect(session, socket)?;
                }
                return Ok(());
            }
            Err(Failure::Pipe) => return Err(Failure::Pipe),
        }
    }
    Ok(())
}

fn reconnect(session: &mut Session, socket: &Path) -> Result<(), Failure> {
    session.connection = Connection::open(socket)?;
    println("connected again")
}

/// Prints the help for the line up to the cursor. Inside quotes and braces `?` is a character.
fn help(editor: &mut Reedline, session: &mut Session, socket: &Path) -> Result<(), Failure> {
    let line = editor.current_buffer_contents();
    let before = line
        .get(..editor.current_insertion_point())
        .unwrap_or(line)
        .to_owned();
    if tokenize(&before).is_err() {
        editor.run_edit_commands(&[EditCommand::InsertChar('?')]);
        return Ok(());
    }
    match session.connection.help(&before) {
        Ok(reply) => println(&format!(
            "\n{}",
            reply.text.or(reply.error).unwrap_or_default().trim_end()
        )),
        Err(error) => {
            println(&format!("\n{error}"))?;
            reconnect(session, socket)
        }
    }
}

fn println(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

fn editor(socket: &Path) -> Result<Reedline, Failure> {
    let mut keys = default_emacs_keybindings();
    let complete = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu(MENU.into()),
        ReedlineEvent::MenuNext,
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    keys.add_binding(
        KeyModifiers::SHIFT,
        KeyCode::BackTab,
        ReedlineEvent::MenuPrevious,
    );
    for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
        keys.add_binding(
            modifiers,
            KeyCode::Char('?'),
            ReedlineEvent::ExecuteHostCommand(HELP_KEY.into()),
        );
    }
    let menu = ColumnarMenu::default().with_name(MENU);
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_validator(Box::new(Balanced))
        .with_completer(Box::new(ServerCompleter {
            socket: socket.to_owned(),
            connection: None,
        }))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .use_bracketed_paste(true)
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_ansi_colors(std::env::var_os("NO_COLOR").is_none());
    match history() {
        Ok(history) => editor = editor.with_history(Box::new(history)),
        Err(why) => println(&format!("no history: {why}"))?,
    }
    Ok(editor)
}

fn history() -> Result<FileBackedHistory, String> {
    let path = history_path(|name| std::env::var_os(name).map(PathBuf::from))
        .ok_or("neither XDG_STATE_HOME nor HOME is set")?;
    FileBackedHistory::with_file(HISTORY, path).map_err(|e| e.to_string())
}

/// `$XDG_STATE_HOME/parshall/history`, by default under `~/.local/state` (XDG Base Directory 0.8).
fn history_path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("parshall/history"))
}

struct Plain;

impl Prompt for Plain {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "parshall".into()
    }
    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }
    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        "# ".into()
    }
    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  > ".into()
    }
    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(history: {}) ", search.term).into()
    }
}

/// Asks for more lines while a brace or quote is open.
struct Balanced;

impl Validator for Balanced {
    fn validate(&self, line: &str) -> ValidationResult {
        if wants_more(line) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// Completes over a connection of its own, so that Tab never waits behind a command.
struct ServerCompleter {
    socket: PathBuf,
    connection: Option<Connection>,
}

impl ServerCompleter {
    fn ask(&mut self, line: &str, cursor: usize) -> Result<Vec<Suggestion>, ConnectionError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.socket)?,
        };
        let reply = connection.complete(line, cursor)?;
        self.connection = Some(connection);
        let suggestion = |c: parshall_command::Candidate| Suggestion {
            value: c.text,
            description: (!c.help.is_empty()).then_some(c.help),
            span: Span {
                start: c.start.min(cursor),
                end: cursor,
            },
            append_whitespace: true,
            ..Suggestion::default()
        };
        Ok(reply
            .candidates
            .unwrap_or_default()
            .into_iter()
            .map(suggestion)
            .collect())
    }
}

impl Completer for ServerCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        // Without a router there is nothing to offer; the next command says why.
        CompletionResult::fresh(self.ask(line, pos).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Router;

    #[test]
    fn the_history_is_where_xdg_says() {
        let with = |xdg: &'static str| {
            move |name: &str| Some(PathBuf::from(if name == "HOME" { "/h" } else { xdg }))
        };
        assert_eq!(
            history_path(with("/state")),
            Some("/state/parshall/history".into())
        );
        assert_eq!(
            history_path(with("relative")),
            Some("/h/.local/state/parshall/history".into())
        );
        assert_eq!(history_path(|_| None), None);
    }

    #[test]
    fn open_braces_ask_for_more() {
        let more = |line| matches!(Balanced.validate(line), ValidationResult::Incomplete);
        assert!(more("packet-generator new {\n name x") && more("show \\") && more("a \"b"));
        assert!(!more("packet-generator new { }") && !more("a } b") && !more(""));
    }

    #[test]
    fn completions_come_from_the_server() {
        let router = Router::start();
        let mut completer = ServerCompleter {
            socket: router.path(),
            connection: None,
        };
        let result = completer.complete("show ver", 8);
        let found = result.suggestions();
        assert_eq!(
            found
                .iter()
                .map(|s| (s.value.as_str(), s.span.start, s.span.end))
                .collect::<Vec<_>>(),
            [("version", 5, 8)]
        );
        drop(router);
        assert!(completer.complete("show ver", 8).suggestions().is_empty());
    }
}
