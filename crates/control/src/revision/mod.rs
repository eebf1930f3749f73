//! Revisions of the configuration: numbered, each with who, when, why and what changed; one of them is confirmed.
//!
//! With a directory they outlive the process. A file is written beside its place, synced, and moved there; then the
//! directory is synced (rename(2) is atomic). `state.json` says which revision is confirmed: changing it is the moment at
//! which a change is saved, and whatever a crash leaves behind without it does not count.

pub mod lines;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Revisions kept; of more, the oldest go.
const KEPT: usize = 200;
/// Largest file that is read back.
const MAX_FILE: u64 = 8 << 20;

/// What is known of a revision beside its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Its number, from 1.
    pub number: u64,
    /// When it was made, in seconds of the UNIX epoch.
    pub time: u64,
    /// Who asked for it, as the system says.
    pub who: String,
    /// Why, in their words.
    #[serde(default)]
    pub comment: String,
    /// Commands that led to it from what was there before.
    #[serde(default)]
    pub changes: Vec<String>,
}

/// Which revision counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// The one that a start restores; 0 = there is none.
    confirmed: u64,
    /// One in force that waits to be confirmed.
    #[serde(default)]
    pending: Option<u64>,
}

/// All revisions.
pub struct Revisions {
    dir: Option<PathBuf>,
    /// Held as long as this router uses the directory.
    _lock: Option<Flock<File>>,
    state: State,
    all: BTreeMap<u64, Revision>,
    /// Their texts, where there is no directory.
    texts: BTreeMap<u64, String>,
}

impl Default for Revisions {
    /// Revisions that end with the process.
    fn default() -> Self {
        Revisions {
            dir: None,
            _lock: None,
            state: State::default(),
            all: BTreeMap::new(),
            texts: BTreeMap::new(),
        }
    }
}

impl Revisions {
    /// Those of a directory, which is made if it is not there. One that waited to be confirmed does not count any more.
    ///
    /// # Errors
    /// When the directory cannot be used, or another router uses it.
    pub fn open(dir: &Path) -> Result<Revisions> {
        let cannot =
            |what: &str, e: io::Error| Error::Device(format!("{}: {what}: {e}", dir.display()));
        std::fs::create_dir_all(dir.join("revisions"))
            .map_err(|e| cannot("the state directory cannot be made", e))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join("lock"))
            .map_err(|e| cannot("the state directory cannot be used", e))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Error::refused(format!(
                "{}: another router uses this state directory; give each its own with --state-dir",
                dir.display()
            ))
        })?;
        let mut store = Revisions {
            dir: Some(dir.to_owned()),
            _lock: Some(lock),
            ..Revisions::default()
        };
        store.state = read_json(&dir.join("state.json"))
            .map_err(|e| cannot("state.json", e))?
            .unwrap_or_default();
        store.state.pending = None;
        store.read_all().map_err(|e| cannot("revisions", e))?;
        Ok(store)
    }

    fn read_all(&mut self) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        for entry in std::fs::read_dir(dir.join("revisions"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json")
                && let Some(r) = read_json::<Revision>(&path)?
            {
                self.all.insert(r.number, r);
            }
        }
        Ok(())
    }

    /// Whether they outlive the process.
    pub fn is_saved(&self) -> bool {
        self.dir.is_some()
    }
    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Revision> {
        self.all.values()
    }
    /// Number of the confirmed one.
    pub fn confirmed(&self) -> Option<u64> {
        Some(self.state.confirmed).filter(|n| *n != 0)
    }
    /// Number of the one that waits to be confirmed.
    pub fn pending(&self) -> Option<u64> {
        self.state.pending
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn get(&self, number: u64) -> Result<&Revision> {
        let found = self.all.get(&number);
        found.ok_or_else(|| {
            Error::refused(format!(
                "there is no revision {number}; `show configuration revisions` lists them"
            ))
        })
    }

    /// Its text.
    ///
    /// # Errors
    /// When there is none of that number, or its file cannot be read.
    pub fn text(&self, number: u64) -> Result<String> {
        self.get(number)?;
        let Some(dir) = &self.dir else {
            return Ok(self.texts.get(&number).cloned().unwrap_or_default());
        };
        let path = text_file(dir, number);
        let text = read_bounded(&path).and_then(|t| {
            t.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not there"))
        });
        text.map_err(|e| Error::Device(format!("{}: {e}", path.display())))
    }

    /// Saves a revision and makes it the confirmed one, or with `pending` one that waits for that. Says its number.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub fn save(&mut self, text: &str, mut revision: Revision, pending: bool) -> Result<u64> {
        let number = self.all.keys().next_back().map_or(1, |n| n + 1);
        revision.number = number;
        let state = if pending {
            State {
                pending: Some(number),
                ..self.state.clone()
            }
        } else {
            State {
                confirmed: number,
                pending: None,
            }
        };
        self.write_revision(text, &revision)?;
        self.write_state(&state)?;
        if self.dir.is_none() {
            self.texts.insert(number, text.to_owned());
        }
        self.all.insert(number, revision);
        self.state = state;
        self.drop_oldest();
        Ok(number)
    }

    /// Confirms the one that waits, or gives it up. Says which it was.
    ///
    /// # Errors
    /// When none waits, or it cannot be written.
    pub fn settle(&mut self, confirm: bool) -> Result<u64> {
        let Some(number) = self.state.pending else {
            return Err(Error::refused("no revision waits to be confirmed"));
        };
        let confirmed = if confirm {
            number
        } else {
            self.state.confirmed
        };
        let state = State {
            confirmed,
            pending: None,
        };
        self.write_state(&state)?;
        self.state = state;
        Ok(number)
    }

    fn write_revision(&self, text: &str, revision: &Revision) -> Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let about =
            serde_json::to_string_pretty(revision).map_err(|e| Error::refused(e.to_string()))?;
        let about_file = text_file(dir, revision.number).with_extension("json");
        write_whole(&text_file(dir, revision.number), text)
            .and_then(|()| write_whole(&about_file, &about))
            .map_err(|e| unsaved(dir, &e))
    }

    fn write_state(&self, state: &State) -> Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let text =
            serde_json::to_string_pretty(state).map_err(|e| Error::refused(e.to_string()))?;
        write_whole(&dir.join("state.json"), &text).map_err(|e| unsaved(dir, &e))
    }

    fn drop_oldest(&mut self) {
        while self.all.len() > KEPT {
            let keep = [Some(self.state.confirmed), self.state.pending];
            let mut numbers = self.all.keys().copied();
            let Some(oldest) = numbers.find(|n| !keep.contains(&Some(*n))) else {
                return;
            };
            self.all.remove(&oldest);
            self.texts.remove(&oldest);
            if let Some(dir) = &self.dir {
                let path = text_file(dir, oldest);
                // What cannot be removed only takes room.
                let _ = std::fs::remove_file(path.with_extension("json"));
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn unsaved(dir: &Path, e: &io::Error) -> Error {
    Error::Device(format!(
        "{}: the configuration cannot be saved: {e}; nothing was changed",
        dir.display()
    ))
}

fn text_file(dir: &Path, number: u64) -> PathBuf {
    dir.join("revisions").join(format!("{number:06}.yaml"))
}

fn read_bounded(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file
            .take(MAX_FILE)
            .read_to_string(&mut text)
            .map(|_| Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn read_json<T: for<'d> Deserialize<'d>>(path: &Path) -> io::Result<Option<T>> {
    let text = read_bounded(path)?;
    text.map(|t| serde_json::from_str(&t).map_err(io::Error::from))
        .transpose()
}

/// Puts a file in place whole, whenever the machine stops.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(comment: &str) -> Revision {
        Revision {
            number: 0,
            time: 7,
            who: "test".into(),
            comment: comment.into(),
            changes: vec!["a".into()],
        }
    }

    #[test]
    fn what_is_confirmed_is_there_after_a_restart_and_what_is_not_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = Revisions::open(dir.path()).unwrap();
        assert_eq!(s.confirmed(), None);
        assert_eq!(s.save("one", revision("x"), false), Ok(1));
        assert_eq!(s.save("two", revision("y"), true), Ok(2));
        assert_eq!((s.confirmed(), s.pending()), (Some(1), Some(2)));
        drop(s);
        let mut s = Revisions::open(dir.path()).unwrap();
        assert_eq!((s.confirmed(), s.pending()), (Some(1), None));
        assert_eq!(s.text(2).as_deref(), Ok("two"));
        assert!(s.settle(true).is_err());
        assert_eq!(s.save("three", revision("z"), true), Ok(3));
        assert_eq!(s.settle(true), Ok(3));
        assert_eq!(s.confirmed(), Some(3));
        assert_eq!(
            s.iter().map(|r| r.comment.as_str()).collect::<String>(),
            "xyz"
        );
    }

    #[test]
    fn a_directory_has_one_router() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Revisions::open(dir.path()).unwrap();
        let e = Revisions::open(dir.path()).err().unwrap().to_string();
        assert!(e.contains("another router"), "{e}");
    }

    #[test]
    fn half_a_write_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = Revisions::open(dir.path()).unwrap();
        s.save("one", revision("x"), false).unwrap();
        drop(s);
        // What a crash between the revision and the state leaves behind.
        std::fs::write(dir.path().join("revisions/000002.yaml"), "tw").unwrap();
        std::fs::write(dir.path().join("state.new"), "{").unwrap();
        let mut s = Revisions::open(dir.path()).unwrap();
        assert_eq!((s.confirmed(), s.text(1).as_deref()), (Some(1), Ok("one")));
        assert_eq!(s.save("two", revision("y"), false), Ok(2));
        assert_eq!(s.text(2).as_deref(), Ok("two"));
    }

    #[test]
    fn the_oldest_go_but_never_the_confirmed_one() {
        let mut s = Revisions::default();
        s.save("kept", revision(""), false).unwrap();
        for _ in 0..KEPT + 5 {
            s.save("x", revision(""), true).unwrap();
        }
        assert_eq!(s.iter().count(), KEPT);
        assert_eq!(s.text(1).as_deref(), Ok("kept"));
    }
}
