//! The terminal: raw while `parshall top` runs, as it was before afterwards, also after a panic.

use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::draw::draw;
use crate::sample::Source;
use crate::view::View;

/// Looks and draws until a key ends it.
pub fn run(source: Source, delay: Duration) -> Result<(), String> {
    let mut terminal =
        ratatui::try_init().map_err(|e| format!("this is no terminal to draw in: {e}"))?;
    let done = watch(&mut terminal, source, delay);
    ratatui::restore();
    done
}

fn watch(
    terminal: &mut DefaultTerminal,
    mut source: Source,
    delay: Duration,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("the terminal failed: {e}");
    // https://no-color.org: set and not empty.
    let color = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut view = View::new(&source.title, color);
    view.take(source.look());
    let mut next = Instant::now() + delay;
    loop {
        terminal.draw(|frame| draw(frame, &view)).map_err(failed)?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left).map_err(failed)? {
            // A new size is drawn at the next turn of the loop.
            if let Event::Key(key) = event::read().map_err(failed)?
                && key.kind != KeyEventKind::Release
                && view.key(key)
            {
                return Ok(());
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + delay;
            if !view.paused {
                view.take(source.look());
            }
        }
    }
}
