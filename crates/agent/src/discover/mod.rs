//! Finds collectors by the DNS: DNS-SD for sFlow, as hsflowd does it (`mod_dnssd.c`).
//!
//! `_sflow._udp.DOMAIN` has a SRV record for each collector and TXT records with settings. [`Discovery`] says when to ask and
//! keeps what was answered: first after a random time, so that a site that comes up does not ask all at once; again when what
//! was learnt has lived as long as its lowest time to live. When nobody answered it asks again after one second, after two, after
//! four and so on up to 300, since a name server often comes up after the routers that ask it; until it answers, what was learnt
//! before holds. An [`Ask`] asks; [`ThreadAsk`] does so on a thread of its own, since a name server may be silent.
//!
//! The DNS is not signed here: whoever can answer for the name server can have samples sent to them. Discovery is off until
//! it is asked for.

mod lookup;
pub mod message;
mod resolv;
mod settings;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use serde::Serialize;

use crate::collector_config::CollectorConfig;

pub use settings::{MAX_SPEEDS, Settings, number, speed};

const SECOND: u64 = 1_000_000_000;
/// Seconds to the next question when there are no such records, and most seconds to it when there was no answer.
const RETRY: u32 = 300;
/// Least and most seconds between two questions.
const INTERVAL: (u32, u32) = (10, 86_400);

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The domain; `None` = the search list of this system.
    pub domain: Option<String>,
    /// The name server; `None` = those of this system.
    pub server: Option<SocketAddr>,
    /// The network namespace to ask from; collectors that are found are sent to from there.
    pub namespace: Option<String>,
    /// Longest random time before the first question, in seconds.
    pub delay: u32,
}

/// What the DNS said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The name that was asked for.
    pub name: String,
    /// The collectors, the most preferred first. All of them are sent to.
    pub collectors: Vec<CollectorConfig>,
    /// Settings for the agent.
    pub settings: Settings,
    /// Lowest time to live in seconds; `None` = there were no records.
    pub ttl: Option<u32>,
    /// Why the settings could not be asked for, though the collectors could: those known before hold, and it is asked again soon.
    #[serde(skip)]
    pub no_settings: Option<String>,
    /// What was not understood.
    pub notes: Vec<String>,
}

/// Asks the DNS.
pub trait Ask: Send {
    /// Starts to ask. There is one question at a time.
    fn start(&mut self, place: &Place);

    /// The outcome, once it is there.
    fn finished(&mut self) -> Option<Result<Found, String>>;
}

/// Asks on a thread of its own.
#[derive(Default)]
pub struct ThreadAsk {
    outcome: Option<Receiver<Result<Found, String>>>,
}

impl Ask for ThreadAsk {
    fn start(&mut self, place: &Place) {
        let (tell, outcome) = channel();
        self.outcome = Some(outcome);
        let (place, gone) = (place.clone(), tell.clone());
        let spawned = thread::Builder::new()
            .name("parshall-dns".to_owned())
            .spawn(move || {
                // Nobody may want it any more.
                let _ = tell.send(lookup::look_up(&place));
            });
        if let Err(e) = spawned {
            let _ = gone.send(Err(format!("no thread to ask with: {e}")));
        }
    }

    fn finished(&mut self) -> Option<Result<Found, String>> {
        let outcome = match self.outcome.as_ref()?.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the lookup broke off".to_owned()),
        };
        self.outcome = None;
        Some(outcome)
    }
}

/// When to ask, and what was answered.
pub struct Discovery {
    place: Place,
    ask: Box<dyn Ask>,
    asking: bool,
    due: u64,
    found: Option<Found>,
    /// When nobody answered last, and why.
    error: Option<(u64, String)>,
    /// Questions without an answer since the last that had one.
    failures: u32,
    answers: u64,
}

/// What a discovery has to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoveryStatus {
    /// Where it looks.
    pub place: Place,
    /// What it knows.
    pub found: Option<Found>,
    /// Why the last question that was not answered was not.
    pub last_error: Option<String>,
    /// How long ago that was, in milliseconds.
    pub last_error_ago_ms: Option<u64>,
    /// Questions without an answer since the last that had one.
    pub failures: u32,
    /// Answers so far.
    pub answers: u64,
    /// It waits for an answer.
    pub asking: bool,
    /// When it asks next, in milliseconds from now.
    pub next_question_ms: u64,
}

impl Discovery {
    /// Asks first after 1 to [`Place::delay`] seconds, chosen by `random`; at once when that is 0. `now` in ns, monotonic, as
    /// everywhere here.
    pub fn new(place: Place, ask: Box<dyn Ask>, random: u64, now: u64) -> Discovery {
        let wait = match u64::from(place.delay) {
            0 => 0,
            most => SECOND + random % (SECOND * most.saturating_sub(1)).max(1),
        };
        Discovery {
            place,
            ask,
            asking: false,
            due: now + wait,
            found: None,
            error: None,
            failures: 0,
            answers: 0,
        }
    }

    /// Asks when it is time and takes answers in. Says whether what is known has changed.
    pub fn tick(&mut self, now: u64) -> bool {
        if self.asking {
            return match self.ask.finished() {
                None => false,
                Some(outcome) => self.answered(now, outcome),
            };
        }
        if self.due <= now {
            self.asking = true;
            self.ask.start(&self.place);
        }
        false
    }

    fn answered(&mut self, now: u64, outcome: Result<Found, String>) -> bool {
        self.asking = false;
        match outcome {
            Ok(found) => self.learn(now, found),
            Err(e) => {
                let wait = self.failed(now, e);
                self.due = now + u64::from(wait) * SECOND;
                false
            }
        }
    }

    /// Takes an answer in. Says whether what is known has changed.
    fn learn(&mut self, now: u64, mut found: Found) -> bool {
        let (least, most) = INTERVAL;
        let mut next = found.ttl.map_or(RETRY, |t| t.clamp(least, most));
        self.answers += 1;
        match found.no_settings.clone() {
            None => {
                if self.failures != 0 && self.found.is_some() {
                    tracing::info!("discovery of collectors: {} answers again", found.name);
                }
                (self.error, self.failures) = (None, 0);
            }
            Some(e) => {
                next = next.min(self.failed(now, e));
                if let Some(before) = self.found.as_ref().filter(|f| f.name == found.name) {
                    found.settings = before.settings.clone();
                }
            }
        }
        self.due = now + u64::from(next) * SECOND;
        // A time to live that has gone down by itself is no news.
        let same = self
            .found
            .as_ref()
            .is_some_and(|f| (&f.collectors, &f.settings) == (&found.collectors, &found.settings));
        if !same {
            tell(&found);
        }
        self.found = Some(found);
        !same
    }

    /// Takes note of a question without an answer. Says how many seconds to wait: twice as many as the last time.
    fn failed(&mut self, now: u64, e: String) -> u32 {
        // Told once, however often it is tried again.
        if self.failures == 0 {
            tracing::warn!("discovery of collectors: {e}");
        }
        let wait = 1u32.checked_shl(self.failures).unwrap_or(RETRY).min(RETRY);
        self.failures = self.failures.saturating_add(1);
        self.error = Some((now, e));
        wait
    }

    /// What is known.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Where it looks.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What it has to tell.
    pub fn status(&self, now: u64) -> DiscoveryStatus {
        let ago = |at: u64| now.saturating_sub(at) / 1_000_000;
        DiscoveryStatus {
            place: self.place.clone(),
            found: self.found.clone(),
            last_error: self.error.as_ref().map(|(_, e)| e.clone()),
            last_error_ago_ms: self.error.as_ref().map(|(at, _)| ago(*at)),
            failures: self.failures,
            answers: self.answers,
            asking: self.asking,
            next_question_ms: self.due.saturating_sub(now) / 1_000_000,
        }
    }
}

fn tell(found: &Found) {
    let names: Vec<String> = found.collectors.iter().map(ToString::to_string).collect();
    tracing::info!(
        "discovery of collectors: {} has {}",
        found.name,
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    );
    for note in &found.notes {
        tracing::warn!("discovery of collectors: {}: {note}", found.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Questions asked, and the answer to the next.
    type Played = (u32, Option<Result<Found, String>>);

    /// Answers what the test says.
    #[derive(Clone, Default)]
    struct Script(Arc<Mutex<Played>>);

    impl Ask for Script {
        fn start(&mut self, _: &Place) {
            self.0.lock().unwrap().0 += 1;
        }
        fn finished(&mut self) -> Option<Result<Found, String>> {
            self.0.lock().unwrap().1.take()
        }
    }

    impl Script {
        fn asked(&self) -> u32 {
            self.0.lock().unwrap().0
        }
        fn answer(&self, with: Result<Found, String>) {
            self.0.lock().unwrap().1 = Some(with);
        }
    }

    fn place(delay: u32) -> Place {
        Place {
            domain: Some("example.net".into()),
            server: None,
            namespace: None,
            delay,
        }
    }

    fn found(collector: &str, ttl: Option<u32>) -> Found {
        Found {
            collectors: vec![collector.parse().unwrap()],
            ttl,
            ..Found::default()
        }
    }

    fn seconds(d: &Discovery, now: u64) -> u64 {
        d.status(now).next_question_ms / 1000
    }

    #[test]
    fn the_first_question_comes_at_a_random_time_or_at_once() {
        let due = |delay, random| {
            let d = Discovery::new(place(delay), Box::new(Script::default()), random, 7);
            d.due - 7
        };
        assert_eq!(due(0, 99), 0);
        let all: Vec<u64> = (0..1000u64)
            .map(|r| due(30, r.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        assert!(all.iter().all(|d| (SECOND..30 * SECOND).contains(d)));
        assert!(all.iter().any(|d| *d < 5 * SECOND) && all.iter().any(|d| *d > 25 * SECOND));
        assert!((SECOND..=SECOND + 1).contains(&due(1, u64::MAX)));
    }

    /// Asks at `now` and takes `answer`. Says whether what is known has changed.
    fn ask(d: &mut Discovery, script: &Script, now: u64, answer: Result<Found, String>) -> bool {
        let asked = script.asked();
        assert!(!d.tick(now));
        assert_eq!(script.asked(), asked + 1, "it was not time to ask");
        script.answer(answer);
        d.tick(now)
    }

    #[test]
    fn a_server_that_is_not_up_yet_is_asked_again_soon_and_then_ever_more_rarely() {
        let script = Script::default();
        let mut d = Discovery::new(place(0), Box::new(script.clone()), 0, 0);
        let mut now = 0;
        for (failures, pause) in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
            .into_iter()
            .enumerate()
        {
            assert!(!ask(&mut d, &script, now, Err("refused".into())));
            let s = d.status(now);
            assert_eq!(
                (s.next_question_ms, s.failures),
                (pause * 1000, failures as u32 + 1)
            );
            assert_eq!((s.last_error.as_deref(), s.found), (Some("refused"), None));
            // Not a moment earlier.
            let asked = script.asked();
            d.tick(now + pause * SECOND - 1);
            assert_eq!(script.asked(), asked);
            now += pause * SECOND;
        }
        assert!(ask(&mut d, &script, now, Ok(found("192.0.2.1", Some(60)))));
        let s = d.status(now);
        assert_eq!(
            (s.next_question_ms, s.failures, s.last_error),
            (60_000, 0, None)
        );
        // After an answer it begins with short pauses again; however long nobody answers, nothing overflows.
        now += 60 * SECOND;
        assert!(!ask(&mut d, &script, now, Err("refused".into())));
        assert_eq!(seconds(&d, now), 1);
        d.failures = u32::MAX;
        now += SECOND;
        assert!(!ask(&mut d, &script, now, Err("refused".into())));
        assert_eq!((seconds(&d, now), d.failures), (300, u32::MAX));
    }

    #[test]
    fn settings_that_could_not_be_asked_for_hold_and_are_asked_for_again_soon() {
        let script = Script::default();
        let mut d = Discovery::new(place(0), Box::new(script.clone()), 0, 0);
        let with = |sampling| {
            let mut f = found("192.0.2.1", Some(3600));
            f.settings.sampling = sampling;
            f
        };
        let lacking = || Found {
            no_settings: Some("no answer".into()),
            ..found("192.0.2.1", Some(3600))
        };
        assert!(ask(&mut d, &script, 0, Ok(with(Some(400)))));
        let now = 3600 * SECOND;
        assert!(!ask(&mut d, &script, now, Ok(lacking())));
        assert_eq!(d.found().unwrap().settings.sampling, Some(400));
        let s = d.status(now);
        assert_eq!((s.next_question_ms, s.failures), (1000, 1));
        assert_eq!(s.last_error.as_deref(), Some("no answer"));
        let now = now + SECOND;
        assert!(!ask(&mut d, &script, now, Ok(lacking())));
        assert_eq!(seconds(&d, now), 2);
        // That there are none any more is an answer.
        let now = now + 2 * SECOND;
        assert!(ask(&mut d, &script, now, Ok(with(None))));
        assert_eq!(
            (seconds(&d, now), d.found().unwrap().settings.sampling),
            (3600, None)
        );
    }

    #[test]
    fn what_was_learnt_holds_as_long_as_it_lives_and_longer_while_nobody_answers() {
        let script = Script::default();
        let mut d = Discovery::new(place(0), Box::new(script.clone()), 0, 0);
        assert!(ask(&mut d, &script, 0, Ok(found("192.0.2.1", Some(60)))));
        assert_eq!((seconds(&d, 0), d.status(0).last_error), (60, None));
        // The same again, with less time to live than is worth to ask for.
        let now = 60 * SECOND;
        assert!(!ask(&mut d, &script, now, Ok(found("192.0.2.1", Some(3)))));
        assert_eq!(seconds(&d, now), 10);
        // No answer leaves what is known; that there are none does not.
        let now = now + 10 * SECOND;
        assert!(!ask(&mut d, &script, now, Err("no answer".into())));
        assert_eq!(d.found().unwrap().collectors.len(), 1);
        let now = now + SECOND;
        assert!(ask(&mut d, &script, now, Ok(Found::default())));
        assert_eq!((seconds(&d, now), d.status(now).answers), (300, 3));
        let now = now + 300 * SECOND;
        let long = found("192.0.2.1", Some(u32::MAX));
        assert!(ask(&mut d, &script, now, Ok(long)));
        assert_eq!(seconds(&d, now), 86_400);
    }
}
