//! The kernel programs of `ebpf/`: compiling them, and checking that the objects there are those of the
//! sources beside them.
//!
//! Objects are part of the sources so that a build needs no BPF compiler. Next to each lies a stamp: a
//! hash of the source it was made from and the compiler's name. The hash is checked always. With the
//! same compiler the object must come out again byte for byte; another one may choose other
//! instructions, but must find the same sections and maps.

use std::path::{Path, PathBuf};
use std::process::Command;

use parshall_linux::bpf::Object;

/// Programs, without ending.
const PROGRAMS: &[&str] = &["parshall_xdp"];
/// Section of the program in each object.
const SECTION: &str = "xdp";
/// No debug information, no compiler's name, no table of addresses: nothing that differs between
/// machines. Instructions of Linux 4.14.
const FLAGS: &[&str] = &[
    "-target",
    "bpf",
    "-mcpu=v2",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Qn",
    "-fno-addrsig",
];

struct Paths {
    source: PathBuf,
    object: PathBuf,
    stamp: PathBuf,
}

fn paths(root: &Path, name: &str) -> Paths {
    let at = |ending: &str| root.join("ebpf").join(format!("{name}.{ending}"));
    Paths {
        source: at("c"),
        object: at("o"),
        stamp: at("stamp"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// FNV-1a, 64 bits: tells a changed source, and needs nothing.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn run_clang(args: &[&str]) -> Result<Vec<u8>, String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = Command::new(&clang).args(args).output();
    let out =
        out.map_err(|e| format!("cannot run {clang}: {e}; install clang (apt-get install clang)"))?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        Err(format!("{clang}: {}", String::from_utf8_lossy(&out.stderr)))
    }
}

/// First line of what the compiler says of itself.
fn compiler() -> Result<String, String> {
    let said = run_clang(&["--version"])?;
    let said = String::from_utf8_lossy(&said);
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

/// Compiles in the source's folder, so that no path of this machine gets into the object.
fn compiled(source: &Path) -> Result<Vec<u8>, String> {
    let text = source.display().to_string();
    let mut args = FLAGS.to_vec();
    args.extend(["-c", &text, "-o", "-"]);
    run_clang(&args)
}

fn stamp(source: &[u8], compiler: &str) -> String {
    format!("source {:016x}\ncompiler {compiler}\n", hash(source))
}

fn stamped<'s>(stamp: &'s str, key: &str) -> &'s str {
    let line = stamp.lines().find_map(|l| l.strip_prefix(key));
    line.unwrap_or_default().trim()
}

/// Compiles all programs and writes objects and stamps.
pub fn build(root: &Path) -> Result<Vec<String>, String> {
    let compiler = compiler()?;
    for name in PROGRAMS {
        let p = paths(root, name);
        let object = compiled(&p.source)?;
        Object::parse(&object, SECTION).map_err(|e| e.to_string())?;
        write(&p.object, &object)?;
        write(&p.stamp, stamp(&read(&p.source)?, &compiler).as_bytes())?;
    }
    Ok(Vec::new())
}

/// Findings that need no compiler: objects older than their sources.
pub fn check_stamps(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for name in PROGRAMS {
        let p = paths(root, name);
        let stamp = String::from_utf8_lossy(&read(&p.stamp)?).into_owned();
        let now = format!("{:016x}", hash(&read(&p.source)?));
        if stamped(&stamp, "source ") != now {
            found.push(format!(
                "ebpf/{name}.o: is not of the present ebpf/{name}.c; run cargo xtask ebpf"
            ));
        }
    }
    Ok(found)
}

/// Compiles all programs again and compares.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut found = check_stamps(root)?;
    let compiler = compiler()?;
    for name in PROGRAMS {
        let p = paths(root, name);
        let stamp = String::from_utf8_lossy(&read(&p.stamp)?).into_owned();
        let same_compiler = stamped(&stamp, "compiler ") == compiler;
        let (here, again) = (read(&p.object)?, compiled(&p.source)?);
        let fault = difference(&here, &again, same_compiler)?;
        found.extend(fault.map(|why| format!("ebpf/{name}.o: {why}; run cargo xtask ebpf")));
    }
    Ok(found)
}

/// What tells two objects apart that should be of the same source.
fn difference(here: &[u8], again: &[u8], same_compiler: bool) -> Result<Option<String>, String> {
    let parse = |elf| Object::parse(elf, SECTION).map_err(|e| e.to_string());
    let (here, again) = (parse(here)?, parse(again)?);
    let used = |o: &Object| {
        let mut maps: Vec<usize> = o.uses.iter().map(|u| u.1).collect();
        maps.sort_unstable();
        maps.dedup();
        maps
    };
    Ok(if here.license != again.license {
        Some("its licence differs".to_owned())
    } else if here.maps != again.maps || used(&here) != used(&again) {
        Some(format!(
            "its maps differ: {:?} and {:?}",
            here.maps, again.maps
        ))
    } else if same_compiler && (here.code != again.code || here.uses != again.uses) {
        Some("the same compiler makes other instructions of its source".to_owned())
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.parent().unwrap().to_owned()
    }

    #[test]
    fn the_objects_are_those_of_their_sources() {
        assert_eq!(check(&root()), Ok(Vec::new()));
    }

    #[test]
    fn a_difference_is_found_where_it_counts() {
        let object = read(&paths(&root(), PROGRAMS[0]).object).unwrap();
        let parsed = Object::parse(&object, SECTION).unwrap();
        let at = |needle: &[u8]| {
            object
                .windows(needle.len())
                .position(|w| w == needle)
                .unwrap()
        };
        // The last instruction, exit, becomes another.
        let mut other = object.clone();
        other[at(&parsed.code) + 40 * 8] = 0x05;
        assert!(difference(&object, &other, true).unwrap().is_some());
        assert_eq!(difference(&object, &other, false), Ok(None));
        // The licence.
        let mut other = object.clone();
        other[at(b"Apache-2.0")] = b'B';
        assert!(difference(&object, &other, false).unwrap().is_some());
        assert_eq!(stamped("source 12\ncompiler a b\n", "compiler "), "a b");
        assert_ne!(hash(b"a"), hash(b"b"));
    }
}
