//! The router's clock, and what VPP's test framework asks for around each of its tests.

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use parshall_command::{Args, CommandSpec};

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show clock",
        "Show seconds since the start, and the time of day",
        show_clock,
    ),
    CommandSpec {
        pattern: "set clock adjust <seconds:f64 0..=1000000000>",
        help: "Put the shown clock forward",
        detail: "For tests written for VPP, which put its clock forward instead of waiting. Timers here go by the true time.",
        params: &[("seconds", "Seconds more than have passed")],
        handler: adjust_clock,
    },
    CommandSpec {
        pattern: "show log",
        help: "Say where the log is",
        detail: "",
        params: &[],
        handler: |_, _, _| {
            let text =
                "The log goes to standard error, which systemd keeps: journalctl -u parshall\n";
            Ok(Output::Text(text.into()))
        },
    },
    command(
        "show bihash",
        "Show the memory of tables, as `show memory` does",
        super::runtime::memory,
    ),
    command(
        "show l2patch",
        "Show cross-connected interfaces",
        show_cross_connects,
    ),
    CommandSpec {
        pattern: "api trace save <file:word>",
        help: "Make the file of an API trace, without one in it",
        detail: "For tests written for VPP, which save a trace after each: /tmp/FILE is made and says that there is none.",
        params: &[("file", "Name of the file in /tmp")],
        handler: save_trace,
    },
];

fn show_clock(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let data = serde_json::json!({
        "seconds": r.started.elapsed().as_secs_f64() + r.clock_ahead,
        "unix_seconds": unix.map_or(0, |d| d.as_secs()),
    });
    cx.show(&data, |d| {
        let seconds = d["seconds"].as_f64().unwrap_or_default();
        let date = gmt(d["unix_seconds"].as_u64().unwrap_or_default());
        format!("Time now {seconds:.6}, {date} GMT\n")
    })
}

fn adjust_clock(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.put_clock_forward(args.need("seconds")?);
    Ok(Output::Done)
}

/// A day and time as in RFC 9110 section 5.6.7: "Wed, 11 Mar 2020 17:29:54".
fn gmt(unix: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, second) = (unix / 86_400, unix % 86_400);
    // Years begin in March here, so that the day that some have more is the last (Howard Hinnant, "chrono-Compatible
    // Low-Level Date Algorithms").
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month_day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year + u64::from(month < 2);
    format!(
        "{}, {month_day} {} {year} {:02}:{:02}:{:02}",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

fn show_cross_connects(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let pair =
        |i: &crate::interface::Interface| Some((i.name.clone(), r.interfaces.name(i.xconnect?)));
    let pairs: Vec<(String, String)> = r.interfaces.iter().filter_map(pair).collect();
    cx.show(&pairs, |pairs| match pairs.as_slice() {
        [] => "no interface is cross-connected\n".to_owned(),
        pairs => pairs
            .iter()
            .map(|(from, to)| format!("{from} -> {to}\n"))
            .collect(),
    })
}

fn save_trace(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let name = args.need::<&str>("file")?;
    if name.contains('/') || name.starts_with('.') {
        return Err(Error::refused(format!(
            "{name} is not the name of a file in /tmp"
        )));
    }
    let path = Path::new("/tmp").join(name);
    if !r.is_model() {
        // Only a new file: one that is there may be anybody's, or lead anywhere.
        let made = std::fs::File::create_new(&path);
        made.and_then(|mut f| f.write_all(b"Calls of the API are not traced.\n"))
            .map_err(|e| Error::refused(format!("{}: {e}", path.display())))?;
    }
    Ok(Output::Text(format!(
        "API trace saved to {}\n",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::gmt;

    #[test]
    fn days_have_names_and_leap_years_their_day() {
        assert_eq!(gmt(0), "Thu, 1 Jan 1970 00:00:00");
        assert_eq!(gmt(1_583_947_794), "Wed, 11 Mar 2020 17:29:54");
        assert_eq!(gmt(1_582_934_400), "Sat, 29 Feb 2020 00:00:00");
        assert_eq!(gmt(1_735_689_599), "Tue, 31 Dec 2024 23:59:59");
        assert_eq!(gmt(4_107_542_400), "Mon, 1 Mar 2100 00:00:00");
    }
}
