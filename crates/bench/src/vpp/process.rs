//! A VPP of our own: found, configured, started, and gone again when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::cli::Cli;
use crate::BenchError;

/// Longest time it may take to open its command socket.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where an installation keeps the program and the plugins, below its folder.
const PROGRAMS: [&str; 3] = ["bin/vpp", "usr/bin/vpp", "vpp"];
const LIBRARIES: [&str; 6] = [
    "lib",
    "lib64",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib",
];
/// The plugins that the cases need: all others stay out.
const PLUGINS: [&str; 3] = ["sflow_plugin.so", "acl_plugin.so", "vxlan_plugin.so"];

/// A VPP that runs.
pub struct Vpp {
    child: Child,
    folder: TempDir,
}

impl Vpp {
    /// Starts the VPP at `path` with its worker on `cpu` and its main thread elsewhere.
    ///
    /// # Errors
    /// When there is no VPP, no second CPU, or it ends before it listens; gives the end of its log.
    pub fn start(path: &Path, cpu: usize) -> Result<(Vpp, Cli), BenchError> {
        let fail = |e: std::io::Error| BenchError::of("VPP", e);
        let program = program(path)?;
        let allowed = parshall_linux::affinity::allowed_cpus();
        let allowed = allowed.map_err(|e| BenchError::of("VPP", e))?;
        let main = allowed.into_iter().find(|c| *c != cpu).ok_or_else(|| {
            BenchError(format!("VPP needs a CPU beside {cpu} for its main thread"))
        })?;
        let folder = tempfile::Builder::new()
            .prefix("parshall-bench-")
            .tempdir()
            .map_err(fail)?;
        let libraries = libraries(&program);
        let file = folder.path().join("startup.conf");
        fs::write(&file, configuration(folder.path(), &libraries, main, cpu)).map_err(fail)?;
        let output = fs::File::create(folder.path().join("output")).map_err(fail)?;
        let errors = output.try_clone().map_err(fail)?;
        let child = Command::new(&program)
            .arg("-c")
            .arg(&file)
            .env("LD_LIBRARY_PATH", search_path(&libraries))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|e| BenchError(format!("{} cannot be run: {e}", program.display())))?;
        let mut vpp = Vpp { child, folder };
        let socket = vpp.folder.path().join("cli.sock");
        let cli = Cli::connect(&socket, PATIENCE, || vpp.alive())?;
        Ok((vpp, cli))
    }

    /// Folder for files; gone with the VPP.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn alive(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let read =
                    |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
                let text = read("output") + &read("vpp.log");
                let lines: Vec<_> = text.lines().rev().take(5).collect();
                let end: Vec<_> = lines.into_iter().rev().collect();
                Err(BenchError(format!(
                    "VPP ended ({status}): {}",
                    end.join("; ")
                )))
            }
            Err(e) => Err(BenchError::of("VPP", e)),
        }
    }
}

impl Drop for Vpp {
    fn drop(&mut self) {
        // Asked first, so that it removes what it made; then made to.
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw);
        let asked = pid.is_ok_and(|pid| kill(pid, Signal::SIGTERM).is_ok());
        let start = Instant::now();
        while asked && start.elapsed() < Duration::from_secs(5) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program at `path` or below it.
pub fn program(path: &Path) -> Result<PathBuf, BenchError> {
    let below = PROGRAMS.iter().map(|p| path.join(p));
    let found = std::iter::once(path.to_owned())
        .chain(below)
        .find(|p| p.is_file());
    found.ok_or_else(|| {
        let names = PROGRAMS.join(", ");
        BenchError(format!(
            "no VPP at {}: it is neither a program nor a folder with {names}",
            path.display()
        ))
    })
}

/// The library folders of the installation that a program belongs to.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let root = program.parent().and_then(Path::parent);
    let all = root
        .into_iter()
        .flat_map(|r| LIBRARIES.iter().map(move |l| r.join(l)));
    all.filter(|p| p.is_dir()).collect()
}

fn search_path(libraries: &[PathBuf]) -> String {
    let mut all: Vec<String> = libraries.iter().map(|p| p.display().to_string()).collect();
    all.extend(
        std::env::var("LD_LIBRARY_PATH")
            .ok()
            .filter(|v| !v.is_empty()),
    );
    all.join(":")
}

/// No plugin but [`PLUGINS`]; everything private to `folder`. The statistics segment must hold the counters of
/// a million routes: VPP ends when it does not.
fn configuration(folder: &Path, libraries: &[PathBuf], main: usize, worker: usize) -> String {
    let at = folder.display();
    let plugins = libraries
        .iter()
        .map(|l| l.join("vpp_plugins"))
        .filter(|p| p.is_dir());
    let plugins: Vec<_> = plugins.map(|p| p.display().to_string()).collect();
    let path = match plugins.is_empty() {
        true => String::new(),
        false => format!("path {} ", plugins.join(":")),
    };
    let enabled = PLUGINS
        .map(|p| format!("plugin {p} {{ enable }}"))
        .join(" ");
    let prefix = folder.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "unix {{ nodaemon nobanner runtime-dir {at} log {at}/vpp.log cli-listen {at}/cli.sock }}\n\
         api-segment {{ prefix {prefix} }}\n\
         cpu {{ main-core {main} corelist-workers {worker} }}\n\
         memory {{ main-heap-size 4G }}\n\
         statseg {{ socket-name {at}/stats.sock size 1G }}\n\
         plugins {{ {path}plugin default {{ disable }} {enabled} }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("bin")).unwrap();
        fs::create_dir_all(root.path().join("lib/x86_64-linux-gnu/vpp_plugins")).unwrap();
        root
    }

    /// An executable script in the place of VPP.
    fn install(root: &Path, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = root.join("bin/vpp");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn the_program_is_found_in_a_folder_or_by_itself() {
        let root = installation();
        let error = program(root.path()).unwrap_err().to_string();
        assert!(
            error.contains("neither a program nor a folder with bin/vpp"),
            "{error}"
        );
        let path = install(root.path(), "");
        assert_eq!(program(root.path()).unwrap(), path);
        assert_eq!(program(&path).unwrap(), path);
        let lib = root.path().join("lib");
        assert_eq!(
            libraries(&path),
            [lib.clone(), lib.join("x86_64-linux-gnu")]
        );
    }

    #[test]
    fn the_configuration_is_private() {
        let root = installation();
        let lib = root.path().join("lib/x86_64-linux-gnu");
        let text = configuration(Path::new("/tmp/x"), std::slice::from_ref(&lib), 1, 0);
        for part in [
            "cli-listen /tmp/x/cli.sock",
            "api-segment { prefix x }",
            "main-core 1 corelist-workers 0",
            "plugin default { disable }",
            &format!("path {}/vpp_plugins ", lib.display()),
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(configuration(Path::new("/x"), &[], 1, 0).contains("plugins { plugin default"));
    }

    #[test]
    fn a_vpp_that_ends_says_why() {
        let root = installation();
        install(root.path(), "#!/bin/sh\necho no huge pages >&2\nexit 3\n");
        let cpus = parshall_linux::affinity::allowed_cpus().unwrap();
        let error = Vpp::start(root.path(), cpus[0]).err().unwrap().to_string();
        match cpus.len() {
            1 => assert!(error.contains("needs a CPU beside"), "{error}"),
            _ => assert!(error.contains("no huge pages"), "{error}"),
        }
    }
}
