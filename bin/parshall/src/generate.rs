//! Man pages and shell completions, made from the definitions of the command line; and the completion of router
//! commands, which a running router knows best.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use parshall_cli::{Connection, DEFAULT_SOCKET};

/// What bash does after clap's own completion: words behind `parshall ctl` are asked for at the router.
const BASH_ROUTER: &str = r#"
_parshall_router() {
    if [[ ${COMP_WORDS[1]} == ctl && ${COMP_WORDS[COMP_CWORD]} != -* ]]; then
        local i socket=() line=""
        for ((i = 2; i <= COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
            --socket) socket=(--socket "${COMP_WORDS[i + 1]}"); ((i++)) ;;
            -*) ;;
            *) line+="${line:+ }${COMP_WORDS[i]}" ;;
            esac
        done
        [[ -z ${COMP_WORDS[COMP_CWORD]} && $line != *" " && -n $line ]] && line+=" "
        mapfile -t COMPREPLY < <(parshall complete "${socket[@]}" -- "$line" 2>/dev/null)
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return
    fi
    _parshall "$@"
}
complete -F _parshall_router -o nosort -o bashdefault -o default parshall
"#;

/// Arguments of `parshall man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Folder to write the pages to; it is made if it is not there.
    dir: PathBuf,
}

/// Arguments of `parshall completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Arguments of `parshall complete`.
#[derive(Args, Clone, Debug)]
pub struct CompleteArgs {
    /// The router's command socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// The line so far.
    #[arg(allow_hyphen_values = true)]
    line: String,
}

/// Writes one page for the program and one for each of its commands.
pub fn man(args: &ManArgs, command: Command) -> ExitCode {
    let written = std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(command, &args.dir));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("parshall: {}: {e}", args.dir.display());
            ExitCode::FAILURE
        }
    }
}

/// Prints the completion script of a shell.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "parshall", &mut script);
    if args.shell == Shell::Bash {
        script.extend_from_slice(BASH_ROUTER.as_bytes());
    }
    match std::io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has had enough.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints the words that may stand at the end of a router command, one a line.
pub fn complete(args: &CompleteArgs) -> ExitCode {
    let asked =
        Connection::open(&args.socket).and_then(|mut c| c.complete(&args.line, args.line.len()));
    match asked {
        Ok(reply) => {
            for candidate in reply.candidates.unwrap_or_default() {
                println!("{}", candidate.text);
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
